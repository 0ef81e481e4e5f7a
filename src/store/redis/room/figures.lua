-- What one healthy core says of the stock; the instant is Redis' own, less the time that the
-- reading took.
-- KEYS room figures
-- ARGV the SKUs as a JSON array, how long ago their reading began (ms), units that the room had been
--      told were taken by then, buyers with a live hold
local at = math.floor(now - tonumber(ARGV[2]))
local known = tonumber(redis.call('HGET', KEYS[1], 'figures_at') or 0)
if known > at and known <= now then
  -- Another core has read later.
  return 0
end
at = string.format('%.0f', at)
redis.call('HSET', KEYS[1], 'figures_at', at)
redis.call('SET', KEYS[2], '{"at_ms":' .. at .. ',"skus":' .. ARGV[1] .. ',"units_told":' .. ARGV[3]
  .. ',"holders":' .. ARGV[4] .. '}')
return 1
