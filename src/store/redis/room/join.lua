-- Joins of one node, up to 512 in one step, all at one instant.
-- KEYS control room joins accounts addresses left journal wake
-- ARGV places_per_ip max_places, then per join: key account address number owner
--   lapsed
--   (number and owner: what a valid ticket of the asker says; lapsed: a number of the asker's that
--   was called and missed, and leads to a new one; "" = none)
-- Answers {now, run, then per join: number or refusal, 1 if known before, account of the place}
local control_key, room_key, joins, accounts, addresses = unpack(KEYS)
local left, journal, wake = unpack(KEYS, 6)
-- What a core has yet to write down; beyond this accounts wait until it has.
local JOURNAL_MAX = 20000
if not is_loaded(room_key) then
  return { 'unloaded' }
end
local control = redis.call('HMGET', control_key, 'run', 'lobby_opens_ms', 'opens_ms', 'closes_ms')
local room = redis.call('HMGET', room_key, 'frozen', 'entries', 'late',
  'entries_ceiling', 'late_ceiling', 'places')
local frozen = room[1]
if not frozen and now >= tonumber(control[3]) and now < tonumber(control[4]) then
  frozen = text(now)
  redis.call('HSET', room_key, 'frozen', frozen)
end

-- Entry or latecomer: its next number, and the ceiling that keeps numbers from being given twice.
local kind, counter = 'e', 'entries'
local upcoming, ceiling = tonumber(room[2]), tonumber(room[4])
if frozen then
  kind, counter = 'l', 'late'
  upcoming, ceiling = tonumber(room[3]), tonumber(room[5])
end
-- Counted apart from the numbers, which leave holes after a restore.
local places = tonumber(room[6] or 0)
local places_per_ip, max_places = tonumber(ARGV[1]), tonumber(ARGV[2])
local unwritten = redis.call('XLEN', journal)

local function refusal(account, address)
  if now >= tonumber(control[4]) then
    return 'closed'
  elseif now < tonumber(control[2]) then
    return 'not-open'
  elseif max_places > 0 and places >= max_places then
    return 'full'
  elseif upcoming >= ceiling or account ~= '' and unwritten >= JOURNAL_MAX then
    return 'ceiling'
  elseif account == '' and address ~= '' and places_per_ip > 0
    and tonumber(redis.call('HGET', addresses, address) or 0) >= places_per_ip then
    return 'too-many'
  end
end

local function new_number(account, address)
  local number = kind .. text(upcoming)
  upcoming = upcoming + 1
  places = places + 1
  -- The counter goes first: a step cut short must not give a number twice.
  redis.call('HSET', room_key, counter, text(upcoming), 'places', text(places))
  if account == '' and address ~= '' then
    redis.call('HINCRBY', addresses, address, 1)
  end
  return number
end

local function is_lower(a, b)
  if string.sub(a, 1, 1) ~= string.sub(b, 1, 1) then
    return string.sub(a, 1, 1) == 'e'
  end
  return tonumber(string.sub(a, 2)) < tonumber(string.sub(b, 2))
end

-- A number that was given up is nobody's any more.
local function is_left(number)
  return redis.call('ZSCORE', left, control[1] .. ':' .. number)
end

-- What is known of the asker: number, and the account it is tied to ("" = none).
local function known_place(key, account, number, owner, lapsed)
  local tied = account ~= '' and redis.call('HGET', accounts, account)
  if tied and (tied == lapsed or is_left(tied)) then
    tied = false
  end
  if number ~= '' and is_left(number) then
    number, owner = '', ''
  end
  if number ~= '' and owner == account and account ~= '' then
    -- A ticket of this very account outlives a store loss; the lower number wins.
    if not tied or is_lower(number, tied) then
      return number, account
    end
  end
  if tied then
    return tied, account
  end
  local joined, joiner = number, owner
  if joined == '' then
    local record = redis.call('HGET', joins, key)
    if not record then
      return nil
    end
    joined, joiner = string.match(record, '^(%S+) (.*)$')
    if joined == lapsed or is_left(joined) then
      return nil
    end
  end
  if account == '' or joiner == account then
    return joined, joiner
  elseif joiner ~= '' then
    -- The browser's place belongs to somebody else's account.
    return nil
  end
  if frozen then
    -- Signing in after the opening: the place goes on without the account.
    return joined, ''
  end
  -- Signing in ties an anonymous place, once: a copy of its ticket ties it to nobody else. Numbers
  -- are no hashes, so they have fields of their own here.
  local tied_before = redis.call('HGET', joins, joined)
  if tied_before and tied_before ~= account then
    return nil
  end
  redis.call('HSET', joins, joined, account)
  return joined, account
end

-- An account's number is also written down in the journal, which a core carries to Postgres.
local function register(account, number)
  redis.call('XADD', journal, '*', 'run', control[1], 'account', account, 'number', number)
  redis.call('HSET', accounts, account, number)
  unwritten = unwritten + 1
end

local answers = { text(now), control[1] }
for i = 3, #ARGV, 6 do
  local key, account, address, ticket, owner, lapsed = unpack(ARGV, i, i + 5)
  local number, tied = known_place(key, account, ticket, owner, lapsed)
  local known, refused = number and 1 or 0, nil
  if not number then
    refused = refusal(account, address)
    if not refused then
      number, tied = new_number(account, address), account
    end
  end
  local is_news = number and tied ~= '' and redis.call('HGET', accounts, tied) ~= number
  if is_news and known == 1 and unwritten >= JOURNAL_MAX then
    number, refused = nil, 'ceiling'
  elseif number then
    redis.call('HSET', joins, key, number .. ' ' .. tied)
    if is_news then
      register(tied, number)
    end
  end
  if refused == 'ceiling' then
    wake_core(wake)
  end
  answers[#answers + 1] = number or refused
  answers[#answers + 1] = known
  answers[#answers + 1] = tied or ''
end
return answers
