-- Gathers some of the journalled accounts, before the room counts as loaded.
-- KEYS restoring
-- ARGV account and number pairs
-- Answers 1, or 0 if this is not where the restore began
local restoring = KEYS[1]
if not is_begun(restoring) then
  return 0
end
for i = 1, #ARGV, 1000 do
  redis.call('HSET', restoring, unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
return 1
