-- Loads a room that this server does not have: the first time, and after it was emptied,
-- restarted or failed over. Counters resume where no number can have been given.
-- KEYS control room calls joins accounts addresses left restoring meter active undecided, then what
--      is not kept: claims, windows, the gates
-- ARGV the control record, the room's fields, and when the admissions of those whom a core knows to
--      be inside end, as JSON objects of strings
-- Answers 1 if this call loaded it, 0 if it is loaded, -1 if the restore must begin anew
local control_key, room_key, calls, joins, accounts = unpack(KEYS, 1, 5)
local addresses, left, restoring, meter_key, active, undecided = unpack(KEYS, 6, 11)
if is_loaded(room_key) then
  return 0
elseif not is_begun(restoring) then
  return -1
end
local function put(key, record)
  for field, value in pairs(record) do
    redis.call('HSET', key, field, value)
  end
end
local given, room = cjson.decode(ARGV[1]), cjson.decode(ARGV[2])
local version, epoch = unpack(redis.call('HMGET', control_key, 'version', 'epoch'))
if version and tonumber(given.version) < tonumber(version) then
  -- It was changed meanwhile.
  return -1
end
put(control_key, given)

-- An older copy knows who joined, whether entries are closed, and who was let in; all else it may be
-- wrong about.
local known = redis.call('HMGET', room_key, 'run', 'frozen', 'sale_at')
-- What a clock that was set back has let in ends long after now, and does not count before it began.
local is_back = tonumber(known[3] or 0) - now > SET_BACK_MS
redis.call('UNLINK', room_key, calls, meter_key, unpack(KEYS, 12))
if epoch ~= given.epoch or is_back then
  redis.call('UNLINK', active, undecided)
end
-- Who is inside may be so still: nobody is let in in their stead.
for buyer, ends in pairs(is_back and {} or cjson.decode(ARGV[3])) do
  redis.call('ZADD', active, 'GT', ends, buyer)
end
-- But for numbers that were booked before a pause, which are void with their meter.
redis.call('ZREMRANGEBYSCORE', active, '+inf', '+inf')
if known[1] ~= room.run then
  -- Nothing of an earlier run counts in this one.
  redis.call('UNLINK', joins, addresses, left)
elseif known[2] then
  redis.call('HSET', room_key, 'frozen', known[2])
end
put(room_key, room)
redis.call('HDEL', restoring, BEGUN)
if redis.call('EXISTS', restoring) == 1 then
  redis.call('RENAME', restoring, accounts)
  redis.call('PERSIST', accounts)
else
  redis.call('UNLINK', accounts)
end

-- Numbers of the lost meter would be read under the new one: claims start anew, and all below
-- the cursor count as called now. The meter has no credit.
local rate, cursor = tonumber(given.rate), room.cursor
local at = given.paused ~= '1' and now + 1000 / rate or nil
meter_write(meter_key, { next = 0, burst = tonumber(given.burst),
  anchors = { { from = 0, at = at, rate = rate } } })
if tonumber(cursor) > 0 then
  redis.call('ZADD', calls, cursor, '0')
end
-- Who below it was admitted is not known: none of them counts as lapsed.
redis.call('HSET', room_key, 'claimed', 0, 'admitted', 0, 'units_told', 0,
  'lapse_from', cursor, 'lapse_cursor', cursor, 'lapse_admitted', 0,
  'sale_ms', 0, 'epoch_sale_ms', 0, 'loaded_ms', text(now), 'loaded', server())
return 1
