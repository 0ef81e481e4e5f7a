-- Begins a restore, and says what an older copy of the room knows.
-- KEYS control room restoring
-- ARGV for how long it is kept should nobody finish it (ms)
-- Answers {1, or 0 if the room is loaded; run, entries, latecomers of the copy; its control record}
local control_key, room_key, restoring = unpack(KEYS)
if is_loaded(room_key) then
  return { 0, '0', '0', '0', {} }
end
redis.call('UNLINK', restoring)
redis.call('HSET', restoring, BEGUN, server())
redis.call('PEXPIRE', restoring, ARGV[1])
local room = redis.call('HMGET', room_key, 'run', 'entries', 'late')
return { 1, room[1] or '0', room[2] or '0', room[3] or '0', redis.call('HGETALL', control_key) }
