-- Gives a place up: its number is never found, claimed or counted as ahead again.
-- KEYS control room left addresses joins
-- ARGV run number address ("" = not counted) places_per_ip
-- Answers outcome
local control_key, room_key, left, addresses, joins = unpack(KEYS)
local run, number, address = unpack(ARGV)
local places_per_ip = tonumber(ARGV[4])
if not is_loaded(room_key) then
  return 'unloaded'
elseif redis.call('HGET', control_key, 'run') ~= run then
  return 'void'
end
-- Ranked by the order of leaving, so that nodes read only what is new to them.
local is_new = redis.call('ZADD', left, 'NX', redis.call('ZCARD', left), run .. ':' .. number)
-- A missed place that goes on as a new one is counted there.
if is_new == 1 and redis.call('HEXISTS', joins, after(number)) == 0 then
  if tonumber(redis.call('HGET', room_key, 'places') or 0) > 0 then
    redis.call('HINCRBY', room_key, 'places', -1)
  end
  -- Numbers are never taken back: an address that joins and leaves for ever runs out of them.
  local gone = address ~= '' and redis.call('HINCRBY', addresses, address .. ':left', 1)
  if gone and gone <= places_per_ip
    and tonumber(redis.call('HGET', addresses, address) or 0) > 0 then
    redis.call('HINCRBY', addresses, address, -1)
  end
end
return 'left'
