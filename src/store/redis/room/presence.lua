-- Tells which positions a node has heard from, and hears of those that any node has: a bitmap per
-- few seconds.
-- KEYS the bitmaps, the newest first
-- ARGV how long one is kept (ms), first and last byte wanted, then positions heard from
-- Answers the bytes of each bitmap
local kept, first, last = ARGV[1], ARGV[2], ARGV[3]
for i = 4, #ARGV do
  redis.call('SETBIT', KEYS[1], ARGV[i], 1)
end
if #ARGV > 3 then
  redis.call('PEXPIRE', KEYS[1], kept)
end
local answer = {}
for i, key in ipairs(KEYS) do
  answer[i] = redis.call('GETRANGE', key, first, last)
end
return answer
