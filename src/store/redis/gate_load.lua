-- Loads a gate that is not loaded, or that is of an older generation.
-- KEYS: the SKU's stock hash. ARGV: generation, count, then shard and total pairs.
-- Answers 1 if it was loaded by this call.
if #ARGV < 4 or #ARGV % 2 == 1 then return redis.error_reply('ERR gate: malformed load') end
for i = 1, #ARGV do
  if not string.match(ARGV[i], '^%d+$') or #ARGV[i] > 15 then
    return redis.error_reply('ERR gate: malformed load')
  end
end
local there = redis.call('HMGET', KEYS[1], 'gen', 'count')
if there[1] and there[2] and tonumber(there[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], 'ret:' .. ARGV[i], ARGV[i + 1]) end
if ARGV[2] == '0' then redis.call('HSET', KEYS[1], 'flag', 1) end
redis.call('HSET', KEYS[1], 'gen', ARGV[1], 'count', ARGV[2])
return 1
