-- Forgets a gate and its markers, if it is still of the generation that was seen.
-- KEYS: the SKU's stock hash and its takes hash. ARGV: the generation.
if redis.call('HGET', KEYS[1], 'gen') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
