-- Counts an admission from outside the meter among the open ones.
-- KEYS room active
-- ARGV buyer end_ms
local room_key, active = unpack(KEYS)
if is_loaded(room_key) then
  redis.call('ZREMRANGEBYSCORE', active, '-inf', '(' .. text(now))
  redis.call('ZADD', active, 'GT', ARGV[2], ARGV[1])
end
return 1
