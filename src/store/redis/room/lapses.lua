-- Windows that lapsed: in sale time, which stands still while nobody can be admitted.
local MARKS_A_STEP, POSITIONS_A_STEP, MISSED_A_STEP = 32, 1000, 256

-- Both windows are over; kept in the order of missing, so that nodes read only what is new.
local function miss(second, missed, position)
  redis.call('ZREM', second, position)
  redis.call('ZADD', missed, 'NX', redis.call('ZCARD', missed), position)
end

-- Until when a number that was booked may be collected; 0 if there is none, or it is collected.
local function stands_until(claims, position, meter, resumed)
  local raw = redis.call('HGET', claims, position)
  local number, booked, slot = string.match(raw or '', '^%S+ %S+ %S+ (%S+) (%S+) (%S+)')
  number = tonumber(number)
  local due = number and not tonumber(slot) and meter_slot(meter, number)
  return due and math.max(due, tonumber(booked) or 0, resumed) + COLLECT_MS or 0
end

-- Who began a second window and did not come. A slower rate may have moved the slot of a number
-- booked in time: it still stands.
local function miss_lapsed(second, missed, claims, meter, resumed, sale_ms, window)
  local lapsed = redis.call('ZRANGEBYSCORE', second, '-inf', '(' .. text(sale_ms - window),
    'LIMIT', 0, MISSED_A_STEP)
  for _, position in ipairs(lapsed) do
    local till = stands_until(claims, position, meter, resumed)
    if till >= now then
      redis.call('ZADD', second, text(sale_ms + till - now - window), position)
    else
      miss(second, missed, position)
    end
  end
end

-- How many positions from one to below another were admitted in any epoch.
local function admitted_between(claims, from, to)
  local asked, admitted = {}, 0
  for position = from, to - 1 do
    asked[#asked + 1] = text(position)
  end
  for _, record in ipairs(redis.call('HMGET', claims, unpack(asked))) do
    if record and string.match(record, ' 1$') then
      admitted = admitted + 1
    end
  end
  return admitted
end

-- Follows the calls whose first window is over: `lapse_cursor` is above them, `lapse_admitted`
-- counts who was admitted all the same.
local function follow_lapses(room_key, calls, claims, sale_ms, window, lapse_cursor)
  local from, admitted, left = lapse_cursor, 0, POSITIONS_A_STEP
  local marks = redis.call('ZRANGEBYSCORE', calls, '(' .. text(from), '+inf', 'WITHSCORES',
    'LIMIT', 0, MARKS_A_STEP)
  for i = 1, #marks, 2 do
    local called_at = tonumber(marks[i])
    local to = math.min(tonumber(marks[i + 1]), from + left)
    if sale_ms - called_at <= window or to <= from then
      break
    end
    admitted = admitted + admitted_between(claims, from, to)
    left = left - (to - from)
    from = to
  end
  if from > lapse_cursor then
    redis.call('HSET', room_key, 'lapse_cursor', text(from))
    redis.call('HINCRBY', room_key, 'lapse_admitted', admitted)
  end
end
