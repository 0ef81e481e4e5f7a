-- Takes the units of one order at the gate, all lines or none.
-- KEYS: for each line the SKU's stock hash and its takes hash.
-- ARGV: marker field, reservation id, when the markers expire (Unix seconds),
--       then for each line the generation and the quantity.
-- Answers {code, line, detail}: >= 0 what is left of the scarcest line; -1 sold out; -2 this order
-- was here (detail: its mark, QTY:ID); -3 not loaded; -4 other generation; -5 not enough.
local field, id, expires = ARGV[1], ARGV[2], ARGV[3]
local lines = #KEYS / 2

local function whole(raw, digits)
  return raw and #raw <= digits and string.match(raw, '^[1-9]%d*$')
end
if #ARGV ~= 3 + #KEYS or field == '' or id == '' or not whole(expires, 12) then
  return redis.error_reply('ERR gate: malformed order')
end
local quantity, generation = {}, {}
for i = 1, lines do
  generation[i] = ARGV[2 + 2 * i]
  quantity[i] = tonumber(whole(ARGV[3 + 2 * i], 7))
  if not quantity[i] or not whole(generation[i], 15) then
    return redis.error_reply('ERR gate: malformed line')
  end
end

local stock = {}
for i = 1, lines do
  stock[i] = redis.call('HMGET', KEYS[2 * i - 1], 'gen', 'count', 'flag')
  if stock[i][1] and stock[i][1] ~= generation[i] then return {-4, i, ''} end
end
for i = 1, lines do
  local marker = redis.call('HGET', KEYS[2 * i], field)
  if marker then return {-2, i, marker} end
end
for i = 1, lines do
  if not stock[i][1] or not stock[i][2] then return {-3, i, ''} end
end
local least
for i = 1, lines do
  local count = tonumber(stock[i][2])
  if stock[i][3] or count <= 0 then return {-1, i, '0'} end
  if count < quantity[i] then return {-5, i, stock[i][2]} end
  local left = count - quantity[i]
  if not least or left < least then least = left end
end

for i = 1, lines do
  -- The units first: should anything after this fail, too few are sold and never too many.
  local left = redis.call('HINCRBY', KEYS[2 * i - 1], 'count', -quantity[i])
  redis.call('HSET', KEYS[2 * i], field, quantity[i] .. ':' .. id)
  redis.call('EXPIREAT', KEYS[2 * i], expires)
  if left == 0 then redis.call('HSET', KEYS[2 * i - 1], 'flag', 1) end
end
return {least, 0, ''}
