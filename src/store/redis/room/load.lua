-- Loads a room that this server does not have: the first time, and after it was emptied,
-- restarted or failed over. Counters resume where no number can have been given.
-- KEYS control room meter claims active calls joins accounts addresses left
-- ARGV the control record and the room's fields, as JSON objects of strings
-- Answers 1 if this call loaded it
local control_key, room_key, meter_key, claims, active, calls = unpack(KEYS, 1, 6)
if is_loaded(room_key) then
  return 0
end
local function put(key, record)
  for field, value in pairs(record) do
    redis.call('HSET', key, field, value)
  end
end
local given, room = cjson.decode(ARGV[1]), cjson.decode(ARGV[2])
local version = redis.call('HGET', control_key, 'version')
if not version or tonumber(given.version) > tonumber(version) then
  put(control_key, given)
end
if redis.call('HGET', control_key, 'run') ~= room.run then
  -- The sale was reset meanwhile: the next look knows.
  return 0
end
local earlier = redis.call('HGET', room_key, 'run')
if earlier and earlier ~= room.run then
  -- Nothing of an earlier run counts in this one.
  redis.call('DEL', room_key, unpack(KEYS, 7))
end
put(room_key, room)

-- Numbers of the lost meter would be read under the new one: claims start anew, and all below
-- the cursor count as called now. The meter has no credit.
redis.call('DEL', meter_key, claims, active, calls)
local control = redis.call('HMGET', control_key, 'rate', 'burst', 'paused')
local rate, cursor = tonumber(control[1]), redis.call('HGET', room_key, 'cursor')
local at = control[3] ~= '1' and now + 1000 / rate or nil
meter_write(meter_key, { next = 0, burst = tonumber(control[2]),
  anchors = { { from = 0, at = at, rate = rate } } })
if tonumber(cursor) > 0 then
  redis.call('ZADD', calls, cursor, cursor .. ':0')
end
redis.call('HDEL', room_key, 'sale_at', 'tick', 'resumed_ms')
redis.call('HSET', room_key, 'claimed', 0, 'sale_ms', 0, 'epoch_sale_ms', 0, 'loaded', server())
return 1
