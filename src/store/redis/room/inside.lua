-- Who is inside, and until when, those who stay longest first.
-- KEYS room active
-- ARGV how many at the most
-- Answers nothing while the room is not loaded: then nobody knows.
local room_key, active = unpack(KEYS)
if not is_loaded(room_key) then
  return false
end
return redis.call('ZRANGE', active, 0, ARGV[1] - 1, 'REV', 'WITHSCORES')
