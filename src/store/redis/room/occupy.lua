-- Counts an admission from outside the meter among the open ones. Who is among them already has
-- decided, or has yet to, as before.
-- KEYS room active booked undecided decisions
-- ARGV buyer end_ms
local room_key, active, booked, undecided, decisions = unpack(KEYS)
local buyer, ends = ARGV[1], ARGV[2]
if is_loaded(room_key) then
  end_admissions(active, booked, undecided, decisions)
  if redis.call('ZSCORE', active, buyer) then
    redis.call('ZADD', active, 'GT', ends, buyer)
    redis.call('ZADD', undecided, 'XX', 'GT', ends, buyer)
  else
    redis.call('ZADD', active, ends, buyer)
    redis.call('ZADD', undecided, ends, buyer)
  end
end
return 1
