-- The first step of the opening: from here on every join is a latecomer, whatever a clock says.
-- KEYS control room
-- ARGV run
-- Answers {outcome, entries, frozen at}
local control_key, room_key = unpack(KEYS)
if not is_loaded(room_key) then
  return { 'unloaded', 0, '0' }
end
local control = redis.call('HMGET', control_key, 'run', 'opens_ms', 'closes_ms')
local room = redis.call('HMGET', room_key, 'n', 'frozen', 'entries')
if control[1] ~= ARGV[1] then
  return { 'void', 0, '0' }
elseif room[1] then
  return { 'open', tonumber(room[1]), room[2] }
elseif not room[2] then
  -- A sale that is over does not open any more: a reset may have left its times in the past.
  if now < tonumber(control[2]) or now >= tonumber(control[3]) then
    return { 'early', tonumber(room[3]), '0' }
  end
  room[2] = text(now)
  redis.call('HSET', room_key, 'frozen', room[2])
end
return { 'frozen', tonumber(room[3]), room[2] }
