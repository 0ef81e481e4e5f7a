-- Everything that a node shows and paces by, in one look.
-- KEYS control room meter active figures
-- KEYS control room meter active figures left
-- ARGV how many places given up are known already, how many more to read
local control, room, meter, active, figures, left = unpack(KEYS)
local known, more = tonumber(ARGV[1]), tonumber(ARGV[2])
local open = redis.call('ZCOUNT', active, text(now), '+inf')
return { text(now), is_loaded(room) and 1 or 0, redis.call('HGETALL', control),
  redis.call('HGETALL', room), redis.call('HGETALL', meter),
  redis.call('GET', figures) or '', open, redis.call('ZCARD', left),
  more > 0 and redis.call('ZRANGE', left, known, known + more - 1) or {} }
