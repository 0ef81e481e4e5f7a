-- What the core tells of buyers, after the commit. Told twice is as good as told once: what is
-- counted twice is right again with the next figures.
-- KEYS room active booked undecided decisions
-- ARGV per piece of news: buyer, and "+N" (has taken N units), "=N" (had taken them before),
--      "no" (refused for stock) or "paid" (confirmed)
-- Answers 1, or 0 if the room is not loaded
local room_key, active, booked, undecided, decisions = unpack(KEYS)
if not is_loaded(room_key) then
  return 0
end
local taken = 0
for i = 1, #ARGV, 2 do
  local buyer, what = ARGV[i], ARGV[i + 1]
  if what == 'paid' then
    -- Done here: the place in the checkout is free again.
    redis.call('ZREM', active, buyer)
    redis.call('ZREM', booked, buyer)
    redis.call('ZREM', undecided, buyer)
  else
    local kind, units = string.match(what, '^([+=])(%d+)$')
    if redis.call('ZREM', undecided, buyer) == 1 then
      note_decision(decisions, tonumber(units or 0))
    end
    if kind == '+' then
      taken = taken + tonumber(units)
    end
  end
end
if taken > 0 then
  redis.call('HINCRBY', room_key, 'units_told', taken)
end
return 1
