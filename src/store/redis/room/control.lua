-- Changes the control record, and the meter with it in the same step, by the same rules as
-- domain/control.rs: a test drives both side by side.
-- KEYS control room meter trail active booked undecided second missed
-- ARGV "publish" author field value …   the changed fields; epoch and run "+1" raise them,
--        closes_ms "now" ends the sale, bypass_until_ms "+N" begins a bypass of N ms
--      "adopt" "" field value …         a whole record from the other store
-- Answers {outcome, why not, the record as it is now}
local control_key, room_key, meter_key, trail_key, active, booked = unpack(KEYS, 1, 6)
-- Changes kept until a core has written them down; more only while none can.
local TRAIL_MAX = 10000
local function answer(outcome, why)
  return { outcome, why or '', redis.call('HGETALL', control_key) }
end
if not is_loaded(room_key) then
  return answer('unloaded')
end
local mode, author = ARGV[1], ARGV[2]
local function pairs_of(list, first)
  local record = {}
  for i = first, #list, 2 do
    record[list[i]] = list[i + 1]
  end
  return record
end
local old = pairs_of(redis.call('HGETALL', control_key), 1)
local given = pairs_of(ARGV, 3)
local version, whole_now = tonumber(old.version), math.floor(now)
local is_over = now >= tonumber(old.closes_ms)
local is_close = given.closes_ms == 'now' and not is_over

-- What depends on the record or on the instant.
local function resolve()
  for _, field in ipairs({ 'epoch', 'run' }) do
    if given[field] == '+1' then
      given[field] = text(tonumber(old[field]) + 1)
    end
  end
  if given.closes_ms == 'now' then
    given.closes_ms = is_over and old.closes_ms or text(whole_now)
  end
  local bypass = string.match(given.bypass_until_ms or '', '^%+(%d+)$')
  if bypass then
    given.bypass_until_ms = text(whole_now + tonumber(bypass))
  end
end

-- When a round of the beacon is published, and how long before that the opening must be.
local GENESIS_MS, PERIOD_MS, MARGIN_MS = 1692803367000, 3000, 3000

local function refusal(new)
  local frozen = redis.call('HEXISTS', room_key, 'frozen') == 1
  local is_drawn = frozen or (now >= tonumber(old.opens_ms) and not is_over)
  if new.closes_ms and not is_close and tonumber(new.closes_ms) <= now then
    return new.opens_ms and tonumber(new.opens_ms) <= now and 'opens-passed' or 'closes-passed'
  elseif new.run and is_drawn and not is_over then
    return 'running'
  elseif not new.run and is_drawn
    and (new.lobby_opens_ms or new.opens_ms or (new.closes_ms and not is_close)) then
    return 'drawn'
  elseif is_close or not (new.lobby_opens_ms or new.opens_ms or new.closes_ms) then
    return nil
  end
  local function then_ms(field)
    return tonumber(new[field] or old[field])
  end
  if then_ms('lobby_opens_ms') > then_ms('opens_ms') then
    return 'lobby-after-opens'
  elseif then_ms('opens_ms') >= then_ms('closes_ms') then
    return 'opens-after-closes'
  elseif new.opens_ms and then_ms('opens_ms') <= now then
    return 'opens-passed'
  end
  -- Another run commits to another round.
  local round = not new.run and tonumber(redis.call('HGET', room_key, 'round') or 0) or 0
  if new.opens_ms and round > 0
    and GENESIS_MS + (round - 1) * PERIOD_MS < then_ms('opens_ms') + MARGIN_MS then
    return 'beacon-passed ' .. text(round)
  end
end

local function published()
  local new = {}
  for field, value in pairs(given) do
    if old[field] ~= value then
      new[field] = value
    end
  end
  if next(new) then
    new.version, new.author = text(version + 1), author
  end
  return new
end

-- The higher version wins, of equal versions the paused one, and always the highest epoch and run.
local function adopted()
  local theirs = tonumber(given.version)
  local wins = theirs > version
    or (theirs == version and given.paused == '1' and old.paused ~= '1')
  local new = {}
  for field, value in pairs(given) do
    local rises = field == 'epoch' or field == 'run'
    if rises and tonumber(value) > tonumber(old[field])
      or not rises and wins and old[field] ~= value then
      new[field] = value
    end
  end
  return new
end

local new
if mode == 'publish' then
  resolve()
  new = published()
  local why = refusal(new)
  if why then
    return answer('refused', why)
  end
else
  new = adopted()
end
if not next(new) then
  return answer('same')
end
for field, value in pairs(new) do
  redis.call('HSET', control_key, field, value)
end
if mode == 'publish' then
  redis.call('RPUSH', trail_key, cjson.encode({ at = text(now), old = old, new = new }))
  redis.call('LTRIM', trail_key, -TRAIL_MAX, -1)
end
if new.run then
  -- From this instant on no step does anything, until a core has loaded the new run.
  redis.call('HDEL', room_key, 'loaded')
end
local meter = meter_read(meter_key)
if new.epoch then
  meter_void(meter)
  -- Nobody is in, and everybody who was called may claim anew.
  redis.call('DEL', unpack(KEYS, 5))
  redis.call('HSET', room_key, 'claimed', 0, 'admitted', 0,
    'epoch_sale_ms', redis.call('HGET', room_key, 'sale_ms'),
    'epoch_cursor', redis.call('HGET', room_key, 'cursor') or 0)
end
if new.rate or new.burst then
  meter_set_rate(meter, tonumber(new.rate or old.rate), tonumber(new.burst or old.burst))
end
if new.paused == '1' then
  meter_pause(meter)
elseif new.paused then
  meter_resume(meter)
  redis.call('HSET', room_key, 'resumed_ms', text(now))
end
meter_write(meter_key, meter)

-- Numbers that are booked stand as long as the meter now says: at most until the last is collected.
local function rescore_booked()
  local last = meter.next > 0 and meter_slot(meter, meter.next - 1)
  local ends = last and text(math.max(last, now) + COLLECT_MS) or '+inf'
  local standing = redis.call('ZRANGEBYSCORE', booked, text(now), '+inf', 'WITHSCORES')
  for i = 1, #standing, 2 do
    local buyer = standing[i]
    -- Who is in by another way stays as long as that lasts.
    if redis.call('ZSCORE', active, buyer) == standing[i + 1] then
      redis.call('ZADD', active, ends, buyer)
    end
    redis.call('ZADD', booked, ends, buyer)
  end
end
if new.paused or new.rate or new.burst then
  rescore_booked()
end
return answer('changed')
