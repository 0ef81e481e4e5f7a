-- Takes the units of orders at the gate, one after the other, each with all its lines or none.
-- KEYS: for each SKU that the orders name its stock hash and its takes hash.
-- ARGV: when the markers expire (Unix seconds), then for each order: marker field, reservation id,
--       number of lines, and for each line the SKU's place in KEYS (1 = the first two), the
--       generation and the quantity.
-- Answers {code, line, detail} for each order: >= 0 what is left of the scarcest line; -1 sold out;
-- -2 this order was here (detail: its mark, QTY:ID); -3 not loaded; -4 other generation; -5 not
-- enough.
local expires, skus = ARGV[1], #KEYS / 2

local function whole(raw, digits)
  return raw and #raw <= digits and string.match(raw, '^[1-9]%d*$')
end
if not whole(expires, 12) then return redis.error_reply('ERR gate: malformed order') end
local orders, asked = {}, {}
for s = 1, skus do asked[s] = {} end
local at = 2
while at <= #ARGV do
  local order = {field = ARGV[at], id = ARGV[at + 1]}
  local lines = tonumber(whole(ARGV[at + 2], 2))
  if order.field == '' or order.id == '' or not lines or at + 2 + 3 * lines > #ARGV then
    return redis.error_reply('ERR gate: malformed order')
  end
  for i = 1, lines do
    local from = at + 3 * i
    local line = {sku = tonumber(whole(ARGV[from], 4)), gen = ARGV[from + 1]}
    line.qty = tonumber(whole(ARGV[from + 2], 7))
    if not line.qty or not whole(line.gen, 15) or not asked[line.sku] then
      return redis.error_reply('ERR gate: malformed line')
    end
    order[i] = line
    table.insert(asked[line.sku], order.field)
  end
  table.insert(orders, order)
  at = at + 3 + 3 * lines
end

-- What is known, and from here on what this call has decided.
local stock, marks = {}, {}
for s = 1, skus do
  local gen, count, flag = unpack(redis.call('HMGET', KEYS[2 * s - 1], 'gen', 'count', 'flag'))
  stock[s] = {gen = gen, count = tonumber(count), raw = count, flag = flag, taken = 0, made = {}}
  marks[s] = {}
  if #asked[s] > 0 then
    local found = redis.call('HMGET', KEYS[2 * s], unpack(asked[s]))
    for i, field in ipairs(asked[s]) do marks[s][field] = found[i] end
  end
end

local function decide(order)
  for i, line in ipairs(order) do
    local gen = stock[line.sku].gen
    if gen and gen ~= line.gen then return -4, i, '' end
  end
  for i, line in ipairs(order) do
    local mark = marks[line.sku][order.field]
    if mark then return -2, i, mark end
  end
  for i, line in ipairs(order) do
    local known = stock[line.sku]
    if not known.gen or not known.raw then return -3, i, '' end
  end
  local least
  for i, line in ipairs(order) do
    local known = stock[line.sku]
    local count = known.count - known.taken
    if known.flag or count <= 0 then return -1, i, '0' end
    if count < line.qty then return -5, i, string.format('%.0f', count) end
    if not least or count - line.qty < least then least = count - line.qty end
  end
  for _, line in ipairs(order) do
    local known, mark = stock[line.sku], line.qty .. ':' .. order.id
    known.taken = known.taken + line.qty
    marks[line.sku][order.field] = mark
    table.insert(known.made, order.field)
    table.insert(known.made, mark)
  end
  return least, 0, ''
end

local answer = {}
for _, order in ipairs(orders) do
  local code, line, detail = decide(order)
  table.insert(answer, {code, line, detail})
end

for s = 1, skus do
  local known = stock[s]
  if known.taken > 0 then
    -- The units first: should anything after this fail, too few are sold and never too many.
    local left = redis.call('HINCRBY', KEYS[2 * s - 1], 'count', string.format('%.0f', -known.taken))
    redis.call('HSET', KEYS[2 * s], unpack(known.made))
    redis.call('EXPIREAT', KEYS[2 * s], expires)
    if left == 0 then redis.call('HSET', KEYS[2 * s - 1], 'flag', 1) end
  end
end
return answer
