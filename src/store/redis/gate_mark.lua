-- Marks orders that the ledger knows; a marker that is there stays.
-- KEYS: the SKU's takes hash. ARGV: when the markers expire (Unix seconds), then field and id pairs.
if #ARGV < 3 or #ARGV % 2 == 0 or not string.match(ARGV[1], '^[1-9]%d*$') then
  return redis.error_reply('ERR gate: malformed marks')
end
for i = 2, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[i], '0:' .. ARGV[i + 1])
end
redis.call('EXPIREAT', KEYS[1], ARGV[1])
return (#ARGV - 1) / 2
