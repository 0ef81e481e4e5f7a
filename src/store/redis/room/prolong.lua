-- Counts a buyer among the open admissions until the admission's new end.
-- KEYS control active
-- ARGV epoch buyer ends_ms
local control, active = unpack(KEYS)
if redis.call('HGET', control, 'epoch') == ARGV[1] then
  redis.call('ZADD', active, 'GT', ARGV[3], ARGV[2])
end
