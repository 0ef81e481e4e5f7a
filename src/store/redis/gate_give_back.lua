-- Gives the units of one order back, once: only while its marker still owes them to this very try.
-- KEYS: for each line the SKU's stock hash and its takes hash.
-- ARGV: marker field, the id that the take marked, the id of the reservation that the key stands
--       for ('' = the key is free again: the marker goes), then for each line the generation.
-- Answers the units given back.
local field, own, keeps = ARGV[1], ARGV[2], ARGV[3]
if #ARGV ~= 3 + #KEYS / 2 or field == '' or own == '' then
  return redis.error_reply('ERR gate: malformed give-back')
end
local units = 0
for i = 1, #KEYS / 2 do
  local stock, takes = KEYS[2 * i - 1], KEYS[2 * i]
  local marker = redis.call('HGET', takes, field)
  local quantity, id = string.match(marker or '', '^(%d+):(.*)$')
  quantity = tonumber(quantity)
  if quantity and id == own then
    if keeps == '' then
      redis.call('HDEL', takes, field)
    else
      redis.call('HSET', takes, field, '0:' .. keeps)
    end
    -- A gate that was rebuilt meanwhile does not miss these units.
    if redis.call('HGET', stock, 'gen') == ARGV[3 + i] and quantity > 0 then
      if redis.call('HINCRBY', stock, 'count', quantity) > 0 then
        redis.call('HDEL', stock, 'flag')
      end
      units = units + quantity
    end
  end
end
return units
