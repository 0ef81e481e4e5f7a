-- What one healthy core says of the stock; the instant is Redis' own.
-- KEYS room figures
-- ARGV the SKUs as a JSON array
local at = string.format('%.0f', math.floor(now))
redis.call('HSET', KEYS[1], 'figures_at', at)
redis.call('SET', KEYS[2], '{"at_ms":' .. at .. ',"skus":' .. ARGV[1] .. '}')
return 1
