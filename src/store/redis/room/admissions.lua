-- Open admissions: how they end, and what those that are over say of those to come.
local DECISIONS_MAX, ENDED_MAX = 200, 1000

-- Units that a buyer has taken; 0 for a refusal for stock, or for an end without an order.
local function note_decision(decisions, units)
  redis.call('LPUSH', decisions, text(units))
  redis.call('LTRIM', decisions, 0, DECISIONS_MAX - 1)
end

-- What has ended leaves, so that the sets stay bounded. Who lets an admission run out without an
-- order has decided too; a number that was given up books anew, and says nothing.
local function end_admissions(active, booked, undecided, decisions)
  local before = '(' .. text(now)
  redis.call('ZREMRANGEBYSCORE', active, '-inf', before)
  redis.call('ZREMRANGEBYSCORE', booked, '-inf', before)
  local ended = redis.call('ZRANGEBYSCORE', undecided, '-inf', before, 'LIMIT', 0, ENDED_MAX)
  if #ended > 0 then
    redis.call('ZREM', undecided, unpack(ended))
  end
  for _ = 1, math.min(#ended, DECISIONS_MAX) do
    note_decision(decisions, 0)
  end
end
