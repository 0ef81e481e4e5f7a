-- Raises the ceilings, which are durable by now.
-- KEYS room
-- ARGV name value …
if not is_loaded(KEYS[1]) then
  return 0
end
for i = 1, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0)
  if tonumber(ARGV[i + 1]) > known then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1
