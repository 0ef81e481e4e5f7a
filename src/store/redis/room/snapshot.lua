-- Everything that a node shows and paces by, in one look.
-- KEYS control room meter figures left missed active booked undecided decisions
-- ARGV how many places given up are known already, how many missed ones, how many more to read
local control, room, meter, figures, left, missed = unpack(KEYS, 1, 6)
local active, booked, undecided, decisions = unpack(KEYS, 7)
local left_known, missed_known, more = unpack(ARGV)

local function news(list, known)
  if more == '0' then
    return { redis.call('ZCARD', list), {} }
  end
  return { redis.call('ZCARD', list), redis.call('ZRANGE', list, known, known + more - 1) }
end

local function open(list)
  return redis.call('ZCOUNT', list, text(now), '+inf')
end

-- How many of the last decided took something, and what.
local function decided()
  local all, took, units = redis.call('LRANGE', decisions, 0, -1), 0, 0
  for _, taken in ipairs(all) do
    taken = tonumber(taken)
    took = took + (taken > 0 and 1 or 0)
    units = units + taken
  end
  return { #all, took, units }
end

return { text(now), is_loaded(room) and 1 or 0, redis.call('HGETALL', control),
  redis.call('HGETALL', room), redis.call('HGETALL', meter), redis.call('GET', figures) or '',
  { open(active), open(booked), open(undecided) }, decided(), news(left, left_known),
  news(missed, missed_known) }
