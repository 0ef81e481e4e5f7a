-- Everything that a node shows and paces by, in one look.
-- KEYS control room meter active figures
local control, room, meter, active, figures = unpack(KEYS)
local open = redis.call('ZCOUNT', active, text(now), '+inf')
return { text(now), is_loaded(room) and 1 or 0, redis.call('HGETALL', control),
  redis.call('HGETALL', room), redis.call('HGETALL', meter),
  redis.call('GET', figures) or '', open }
