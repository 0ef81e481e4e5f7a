-- Whether a browser may be sent on once more: one that keeps no cookies comes back as it was, and
-- would be sent round in circles, on whichever node it arrives.
-- KEYS sent
-- ARGV pause (ms), most, within (ms)
-- Answers 1 if it may
local pause, most, within = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local seen = redis.call('HMGET', KEYS[1], 'at', 'times')
local at, times = tonumber(seen[1]), tonumber(seen[2] or 0)
if (at and now - at < pause) or times >= most then
  return 0
end
redis.call('HSET', KEYS[1], 'at', text(now), 'times', times + 1)
if times == 0 then
  redis.call('PEXPIRE', KEYS[1], within)
end
return 1
