-- Turns a called place into an admission, once per epoch, at the slot of a numbered claim.
-- KEYS control room meter claims active calls left booked undecided decisions second missed
-- ARGV run position buyer token_ttl_ms number halted ("1": nobody may be let in from here)
-- Answers {outcome, slot or "", epoch, now, end of the admission or ""}
local control_key, room_key, meter_key, claims, active, calls, left = unpack(KEYS, 1, 7)
local booked, undecided, decisions, second, missed = unpack(KEYS, 8)
local run, position, buyer = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local token_ttl, halted = tonumber(ARGV[4]), ARGV[6] == '1'

if not is_loaded(room_key) then
  return { 'unloaded', '', '0', text(now) }
end
local control = redis.call('HMGET', control_key, 'run', 'epoch', 'paused', 'closes_ms',
  'claim_window_ms', 'max_active')
local room = redis.call('HMGET', room_key, 'n', 'cursor', 'sale_ms', 'epoch_sale_ms',
  'resumed_ms', 'figures_at', 'lapse_cursor')
local epoch, paused = tonumber(control[2]), control[3] == '1'
local max_active = tonumber(control[6])
local sale_ms = tonumber(room[3])

local function answer(outcome, slot, ends)
  return { outcome, slot and text(slot) or '', control[2], text(now), ends and text(ends) or '' }
end

if control[1] ~= run then
  return answer('void')
elseif now >= tonumber(control[4]) then
  return answer('closed')
elseif redis.call('ZSCORE', left, run .. ':' .. ARGV[5]) then
  return answer('left')
elseif not room[1] then
  return answer('not-open')
elseif position >= tonumber(room[2]) then
  return answer('not-called')
end

-- A record: epoch, windows begun, sale time of the window's begin, number, booked at, slot and end
-- of the admission once collected, 1 once one was signed in any epoch; "-" for what is not there.
local function read_record()
  local raw = redis.call('HGET', claims, ARGV[2])
  if not raw then
    return nil
  end
  local fields = {}
  for field in string.gmatch(raw, '%S+') do
    fields[#fields + 1] = tonumber(field) or false
  end
  return { epoch = fields[1], windows = fields[2], since = fields[3],
    number = fields[4], booked = fields[5], slot = fields[6], ends = fields[7],
    admitted = fields[8] }
end

-- One place, one buyer: a ticket tied to another account later is not another place.
local buyer_field = ARGV[2] .. ':buyer'
local bought_by = redis.call('HGET', claims, buyer_field)
if bought_by and bought_by ~= buyer then
  return answer('void')
end

local function write_record(record)
  local function field(value)
    return value and text(value) or '-'
  end
  redis.call('HSET', claims, buyer_field, buyer, ARGV[2], table.concat({ text(record.epoch), text(record.windows),
    text(record.since), field(record.number), field(record.booked), field(record.slot),
    field(record.ends), field(record.admitted) }, ' '))
end

-- The sale time at which the cursor passed the position, by the marks kept.
local function called_at()
  local mark = redis.call('ZRANGEBYSCORE', calls, '(' .. ARGV[2], '+inf', 'LIMIT', 0, 1)[1]
  return tonumber(mark) or sale_ms
end

local record = read_record()
local is_first = not record or record.epoch ~= epoch
if is_first then
  -- A claim voided by a stop counts as called at the stop, in sale time.
  local since = record and tonumber(room[4]) or called_at()
  record = { epoch = epoch, windows = 1, since = since, admitted = record and record.admitted }
elseif record.slot then
  -- The same admission again, until its end.
  return answer(now < record.ends and 'admitted' or 'spent', record.slot, record.ends)
end

-- Nobody can be admitted now; who has missed both windows need not wait to join again.
local function stand_still()
  return answer(redis.call('ZSCORE', missed, ARGV[2]) and 'missed' or 'wait')
end

if halted or paused or not is_fresh(tonumber(room[6])) then
  return stand_still()
end
if max_active > 0 then
  end_admissions(active, booked, undecided, decisions)
  if not redis.call('ZSCORE', active, buyer) and redis.call('ZCARD', active) >= max_active then
    return stand_still()
  end
end

local function collect(slot)
  if not record.admitted and position < tonumber(room[7] or 0) then
    -- Counted as lapsed until now.
    redis.call('HINCRBY', room_key, 'lapse_admitted', 1)
  end
  -- A slot of long ago, by a burst or before a pause, takes nothing from the admission.
  local ends = (now - slot <= COLLECT_MS and slot or now) + token_ttl
  record.slot, record.ends, record.admitted = slot, ends, 1
  write_record(record)
  redis.call('HINCRBY', room_key, 'admitted', 1)
  redis.call('ZREM', second, ARGV[2])
  redis.call('ZREM', booked, buyer)
  for _, open in ipairs({ active, undecided }) do
    redis.call('ZADD', open, text(ends), buyer)
  end
  return answer('admitted', slot, ends)
end

local meter = meter_read(meter_key)
if record.number then
  local slot = meter_slot(meter, record.number)
  if slot and slot > now then
    return answer('wait', slot)
  elseif slot and now <= math.max(slot, record.booked, tonumber(room[5] or 0)) + COLLECT_MS then
    return collect(slot)
  end
  -- Given up: books anew below, if the window still stands.
end

local window = tonumber(control[5])
if sale_ms - record.since > window then
  if record.windows >= 2 then
    miss(second, missed, ARGV[2])
    return answer('missed')
  end
  record.windows, record.since = 2, sale_ms
end
record.number, record.booked = meter_claim(meter), now
meter_write(meter_key, meter)
if is_first then
  redis.call('HINCRBY', room_key, 'claimed', 1)
end
local slot = meter_slot(meter, record.number)
if slot <= now then
  return collect(slot)
end
for _, open in ipairs({ active, booked }) do
  redis.call('ZADD', open, text(slot + COLLECT_MS), buyer)
end
if record.windows == 2 then
  -- A number booked in time may still be collected.
  local since = math.max(record.since, sale_ms + slot + COLLECT_MS - now - window)
  redis.call('ZADD', second, text(since), ARGV[2])
end
write_record(record)
return answer('wait', slot)
