-- Tells of a node and hears of all; those long silent are forgotten. Needs no loaded room: nodes
-- are there before it.
-- KEYS nodes identity
-- ARGV id report identity
-- Answers {now, identity, id, "at report", …}
local nodes, identity = unpack(KEYS)
local id, report = ARGV[1], ARGV[2]
local FORGET_MS, NODES_MAX, EXPIRE_S = 60000, 256, 86400

if redis.call('HEXISTS', nodes, id) == 1 or redis.call('HLEN', nodes) < NODES_MAX then
  redis.call('HSET', nodes, id, text(now) .. ' ' .. report)
  redis.call('EXPIRE', nodes, EXPIRE_S)
end
redis.call('SET', identity, ARGV[3], 'NX')

local answer = { text(now), redis.call('GET', identity) }
local all = redis.call('HGETALL', nodes)
for i = 1, #all, 2 do
  local at = tonumber(string.match(all[i + 1], '^%S+')) or 0
  if now - at > FORGET_MS then
    redis.call('HDEL', nodes, all[i])
  else
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = all[i + 1]
  end
end
return answer
