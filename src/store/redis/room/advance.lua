-- Calls the line on to a position, once a tick; keeps sale time, which stands still while nobody
-- can be admitted; and follows what has ended or lapsed meanwhile.
-- KEYS control room calls active wake claims booked undecided decisions second missed
--      meter
-- ARGV from to
-- Answers {outcome, cursor}
local control_key, room_key, calls, active, wake, claims = unpack(KEYS, 1, 6)
local booked, undecided, decisions, second, missed, meter_key = unpack(KEYS, 7)
local from, to = tonumber(ARGV[1]), tonumber(ARGV[2])
local TICK_MS, GAP_MS_MAX, MARKS_MAX = 100, 1000, 2048
-- A mark stands for this part of a window, so that those kept reach back two windows.
local MARKS_A_WINDOW = 1024

if not is_loaded(room_key) then
  return { 'unloaded', 0 }
end
local control = redis.call('HMGET', control_key, 'paused', 'closes_ms', 'max_active',
  'claim_window_ms')
local room = redis.call('HMGET', room_key, 'n', 'late', 'cursor', 'cursor_ceiling', 'tick',
  'sale_ms', 'sale_at', 'figures_at', 'lapse_cursor', 'resumed_ms')
local max_active, window = tonumber(control[3]), tonumber(control[4])

end_admissions(active, booked, undecided, decisions)
local is_full = max_active > 0 and redis.call('ZCARD', active) >= max_active

local moves = room[1] and control[1] ~= '1' and now < tonumber(control[2])
  and is_fresh(tonumber(room[8])) and not is_full
local sale_ms, sale_at = tonumber(room[6]), tonumber(room[7])
if moves and sale_at then
  -- A longer gap means that no node was there to be claimed at.
  sale_ms = sale_ms + math.min(math.max(now - sale_at, 0), GAP_MS_MAX)
end
redis.call('HSET', room_key, 'sale_ms', text(sale_ms), 'sale_at', text(now))

local cursor = tonumber(room[3])
local tick = math.floor(now / TICK_MS)
if not moves then
  return { 'still', cursor }
end
follow_lapses(room_key, calls, claims, sale_ms, window, tonumber(room[9] or 0))
miss_lapsed(second, missed, claims, meter_read(meter_key), tonumber(room[10] or 0), sale_ms,
  window)
local line = tonumber(room[1]) + tonumber(room[2])
to = math.min(to, line)
if to > tonumber(room[4]) then
  to = tonumber(room[4])
  wake_core(wake)
end
if from ~= cursor then
  return { 'taken', cursor }
elseif to <= cursor then
  return { 'still', cursor }
elseif tick <= tonumber(room[5] or 0) then
  return { 'taken', cursor }
end
redis.call('HSET', room_key, 'cursor', text(to), 'tick', text(tick))
-- Marked with the end of its part: nobody's window is shorter for that.
local part = math.max(window / MARKS_A_WINDOW, 1)
redis.call('ZADD', calls, text(to), text(math.ceil(sale_ms / part) * part))
redis.call('ZREMRANGEBYRANK', calls, 0, -(MARKS_MAX + 1))
return { 'moved', to }
