-- Gives a place up: its number is never found, claimed or counted as ahead again.
-- KEYS control room left addresses
-- ARGV run number address ("" = not counted)
-- Answers outcome
local control_key, room_key, left, addresses = unpack(KEYS)
local run, number, address = unpack(ARGV)
if not is_loaded(room_key) then
  return 'unloaded'
elseif redis.call('HGET', control_key, 'run') ~= run then
  return 'void'
end
-- Ranked by the order of leaving, so that nodes read only what is new to them.
local is_new = redis.call('ZADD', left, 'NX', redis.call('ZCARD', left), run .. ':' .. number)
if is_new == 1 then
  if tonumber(redis.call('HGET', room_key, 'places') or 0) > 0 then
    redis.call('HINCRBY', room_key, 'places', -1)
  end
  if address ~= '' and tonumber(redis.call('HGET', addresses, address) or 0) > 0 then
    redis.call('HINCRBY', addresses, address, -1)
  end
end
return 'left'
