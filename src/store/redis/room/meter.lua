-- The meter, by the same rules as domain/meter.rs: a test drives both side by side.
-- Expects `now` (milliseconds) and `text`.
local ANCHORS_MAX = 16
-- How long a number waits to be collected, from the later of its slot, its booking and a resume.
local COLLECT_MS = 2000

local function meter_read(key)
  local raw = redis.call('HMGET', key, 'next', 'burst', 'anchors')
  local anchors = {}
  for from, at, rate in string.gmatch(raw[3], '([^,;]+),([^,;]*),([^,;]+)') do
    anchors[#anchors + 1] = { from = tonumber(from), at = tonumber(at), rate = tonumber(rate) }
  end
  return { next = tonumber(raw[1]), burst = tonumber(raw[2]), anchors = anchors }
end

local function meter_write(key, meter)
  local anchors = {}
  for i, anchor in ipairs(meter.anchors) do
    local at = anchor.at and text(anchor.at) or ''
    anchors[i] = text(anchor.from) .. ',' .. at .. ',' .. text(anchor.rate)
  end
  redis.call('HSET', key, 'next', text(meter.next), 'burst', text(meter.burst),
    'anchors', table.concat(anchors, ';'))
end

local function interval(anchor)
  return 1000 / anchor.rate
end

local function slot_under(anchor, number)
  return anchor.at and anchor.at + math.max(number - anchor.from, 0) * interval(anchor)
end

-- The slot of a number as things stand; nothing while paused, or when its anchor is forgotten.
local function meter_slot(meter, number)
  for i = #meter.anchors, 1, -1 do
    if meter.anchors[i].from <= number then
      return slot_under(meter.anchors[i], number)
    end
  end
end

local function last_anchor(meter)
  return meter.anchors[#meter.anchors]
end

-- An anchor for the same first number replaces the old one.
local function meter_push(meter, anchor)
  local kept = {}
  for _, old in ipairs(meter.anchors) do
    if old.from < anchor.from then
      kept[#kept + 1] = old
    end
  end
  kept[#kept + 1] = anchor
  while #kept > ANCHORS_MAX do
    table.remove(kept, 1)
  end
  meter.anchors = kept
end

-- Takes the next number; an idle line has saved up nothing.
local function meter_claim(meter)
  local number, last = meter.next, last_anchor(meter)
  local slot = slot_under(last, number)
  if slot then
    local earliest = now - (meter.burst - 1) * interval(last)
    if slot < earliest then
      meter_push(meter, { from = number, at = earliest, rate = last.rate })
    end
  end
  meter.next = number + 1
  return number
end

local function first_not_due(meter)
  local last = last_anchor(meter)
  if not last.at then
    return last.from
  end
  if last.at > now then
    return math.min(last.from, meter.next)
  end
  local due = math.floor((now - last.at) / interval(last)) + 1
  local ahead = math.max(meter.next - last.from, 0)
  return last.from + math.min(due, ahead)
end

-- A new rate acts on the first number not yet due.
local function meter_set_rate(meter, rate, burst)
  meter.burst = math.max(burst, 1)
  local at = last_anchor(meter).at and now + 1000 / rate or nil
  meter_push(meter, { from = first_not_due(meter), at = at, rate = rate })
end

-- Numbers not yet due are handed out anew: the claims that had booked them are void.
local function meter_void(meter)
  meter.next = math.min(meter.next, first_not_due(meter))
end

local function meter_pause(meter)
  meter_push(meter, { from = first_not_due(meter), rate = last_anchor(meter).rate })
end

local function meter_resume(meter)
  local last = last_anchor(meter)
  if not last.at then
    last.at = now + interval(last)
  end
end
