-- Changes the control record, and the meter with it in the same step.
-- KEYS control room meter
-- ARGV "publish" author field value …   the changed fields; an epoch of "+1" raises it
--      "adopt" "" field value …         a whole record from the other store
-- Answers {outcome, version}
local control_key, room_key, meter_key = unpack(KEYS)
if not is_loaded(room_key) then
  return { 'unloaded', 0 }
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
local version = tonumber(old.version)

local function published()
  local new = {}
  if given.epoch == '+1' then
    given.epoch = text(tonumber(old.epoch) + 1)
  end
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

-- The higher version wins, of equal versions the paused one, and always the highest epoch.
local function adopted()
  local theirs = tonumber(given.version)
  local wins = theirs > version
    or (theirs == version and given.paused == '1' and old.paused ~= '1')
  local new = {}
  for field, value in pairs(given) do
    if wins and field ~= 'epoch' and old[field] ~= value then
      new[field] = value
    end
  end
  if tonumber(given.epoch) > tonumber(old.epoch) then
    new.epoch = given.epoch
  end
  return new
end

local new = mode == 'publish' and published() or mode == 'adopt' and adopted()
if not next(new) then
  return { 'same', version }
end
for field, value in pairs(new) do
  redis.call('HSET', control_key, field, value)
end
local meter = meter_read(meter_key)
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
if new.epoch then
  redis.call('HSET', room_key, 'claimed', 0,
    'epoch_sale_ms', redis.call('HGET', room_key, 'sale_ms'))
end
return { 'changed', tonumber(new.version or version) }
