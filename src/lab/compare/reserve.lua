-- The article's script, word for word: take qty units and record a hold, as ONE atomic step.
-- KEYS[1] = stock:SKU-FLASH-01     (integer counter, loaded before the sale)
-- KEYS[2] = hold:SKU-FLASH-01:<orderKey>
-- ARGV[1] = qty   ARGV[2] = hold TTL in seconds
-- Returns: units remaining (0 or more) | -1 sold out | -2 this order key already holds stock

if redis.call('EXISTS', KEYS[2]) == 1 then
  return -2                                    -- a retry of the same order: do not take stock twice
end

-- GET on a missing key gives Lua false, so "or '0'" makes an unloaded counter read as sold out
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
local qty   = tonumber(ARGV[1])

if stock < qty then
  return -1
end

redis.call('DECRBY', KEYS[1], qty)
redis.call('SET', KEYS[2], qty, 'EX', ARGV[2])  -- the hold marker expires on its own
return stock - qty
