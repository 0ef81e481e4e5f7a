-- Applies the running total of units put back to one stock row: only what is new of it.
-- KEYS: the SKU's stock hash. ARGV: shard, total.
-- Answers the units added.
local shard, total = ARGV[1], ARGV[2]
if not string.match(shard, '^%d+$') or not string.match(total, '^%d+$') or #total > 15 then
  return redis.error_reply('ERR gate: malformed push')
end
-- A gate that is not loaded gets the total when it is.
if redis.call('HEXISTS', KEYS[1], 'count') == 0 then return 0 end
local applied = tonumber(redis.call('HGET', KEYS[1], 'ret:' .. shard) or '0')
local more = tonumber(total) - applied
if more <= 0 then return 0 end
redis.call('HSET', KEYS[1], 'ret:' .. shard, total)
if redis.call('HINCRBY', KEYS[1], 'count', string.format('%.0f', more)) > 0 then
  redis.call('HDEL', KEYS[1], 'flag')
end
return more
