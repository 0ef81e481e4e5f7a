-- Shifts a gate by the difference that a comparison found; takes that happened since stay counted.
-- KEYS: the SKU's stock hash and its takes hash.
-- ARGV: generation, difference, what to remember of the gap ('' = nothing), then field and value
--       pairs of markers that stand for nothing and go if they are unchanged.
-- Answers 1 if the gate was of that generation.
if #ARGV < 3 or #ARGV % 2 == 0 or not string.match(ARGV[2], '^%-?%d+$') or #ARGV[2] > 16 then
  return redis.error_reply('ERR gate: malformed correction')
end
local there = redis.call('HMGET', KEYS[1], 'gen', 'count')
if there[1] ~= ARGV[1] or not there[2] then return 0 end
local shift = tonumber(ARGV[2])
for i = 4, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[2], ARGV[i])
  else
    -- Its try ended after the comparison and gave these units back, or they were sold.
    shift = shift - tonumber(string.match(ARGV[i + 1], '^%d+'))
  end
end
-- Below zero is right: takes under way hold what the ledger will refuse, and give it back.
if redis.call('HINCRBY', KEYS[1], 'count', string.format('%.0f', shift)) > 0 then
  redis.call('HDEL', KEYS[1], 'flag')
else
  redis.call('HSET', KEYS[1], 'flag', 1)
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], 'gap')
else
  redis.call('HSET', KEYS[1], 'gap', ARGV[3])
end
return 1
