-- Joins of one node, up to 512 in one step, all at one instant.
-- KEYS control room joins accounts addresses left journal wake missed
-- ARGV how many, places_per_ip, max_places, then their keys, then (if places_per_ip is not 0) their
--   addresses, then for each that is more than an anonymous newcomer's: index account number owner
--   lapsed position
--   (number and owner: what a valid ticket of the asker says; lapsed: a number of the asker's that
--   was missed, used up or left, and leads to a new one, and its position; numbers as "run:number";
--   "" = none)
-- Answers {now, run, a line for each join: a refusal; a new number; or, known before, number and
--   account of the place}
local control_key, room_key, joins, accounts, addresses = unpack(KEYS)
local left, journal, wake, missed = unpack(KEYS, 6)
-- What a core has yet to write down; beyond this accounts wait until it has.
local JOURNAL_MAX = 20000
local KEYS_FROM = 4
if not is_loaded(room_key) then
  return { 'unloaded' }
end
local control = redis.call('HMGET', control_key, 'run', 'lobby_opens_ms', 'opens_ms', 'closes_ms')
local run, lobby_opens = control[1], tonumber(control[2])
local opens, closes = tonumber(control[3]), tonumber(control[4])
local room = redis.call('HMGET', room_key, 'frozen', 'entries', 'late',
  'entries_ceiling', 'late_ceiling', 'places')
local frozen = room[1]
if not frozen and now >= opens and now < closes then
  frozen = text(now)
  redis.call('HSET', room_key, 'frozen', frozen)
end

-- Entry or latecomer: its next number, and the ceiling that keeps numbers from being given twice.
local form, counter = 'e%d', 'entries'
local upcoming, ceiling = tonumber(room[2]), tonumber(room[4])
if frozen then
  form, counter = 'l%d', 'late'
  upcoming, ceiling = tonumber(room[3]), tonumber(room[5])
end
-- Counted apart from the numbers, which leave holes after a restore.
local places = tonumber(room[6] or 0)
local unwritten, registered = redis.call('XLEN', journal), {}

joins, accounts, addresses = fields_of(joins), fields_of(accounts), fields_of(addresses)
local count, places_per_ip, max_places = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local addresses_from = KEYS_FROM + count
local others_from = addresses_from
look(joins, KEYS_FROM, addresses_from - 1)
if places_per_ip > 0 then
  others_from = addresses_from + count
  look(addresses, addresses_from, others_from - 1)
end
-- Where more is said of a join.
local others = {}
for at = others_from, #ARGV, 6 do
  others[tonumber(ARGV[at])] = at
end

-- A node that has not heard of a reset brings numbers of the run before: they are none.
local function of_this_run(ticket)
  return string.match(ticket, '^' .. run .. ':(.+)$') or ''
end

-- A number that was given up is nobody's any more.
local function is_left(number)
  return redis.call('ZSCORE', left, run .. ':' .. number)
end

-- Whether a missed place goes on as a new one: once, whatever the key. One that was used does not.
local function goes_on(lapsed, position)
  return lapsed ~= '' and redis.call('ZSCORE', missed, position) and not is_left(lapsed)
    and not get(joins, after(lapsed))
end

-- How many places an anonymous newcomer's address has; false where they are not counted.
local function places_of(account, address)
  return account == '' and address ~= '' and tonumber(get(addresses, address) or 0)
end

local function refusal(account, address, is_counted)
  if now >= closes then
    return 'closed'
  elseif now < lobby_opens then
    return 'not-open'
  elseif is_counted and max_places > 0 and places >= max_places then
    return 'full'
  elseif upcoming >= ceiling or account ~= '' and unwritten >= JOURNAL_MAX then
    return 'ceiling'
  end
  local taken = is_counted and places_of(account, address)
  if taken and taken >= places_per_ip then
    return 'too-many'
  end
end

local function new_number(account, address, is_counted)
  local number = string.format(form, upcoming)
  upcoming = upcoming + 1
  if not is_counted then
    return number
  end
  places = places + 1
  local taken = places_of(account, address)
  if taken then
    put(addresses, address, text(taken + 1))
  end
  return number
end

local function is_lower(a, b)
  if string.sub(a, 1, 1) ~= string.sub(b, 1, 1) then
    return string.sub(a, 1, 1) == 'e'
  end
  return tonumber(string.sub(a, 2)) < tonumber(string.sub(b, 2))
end

-- The number and account that a record of `joins` names, unless that place is over.
local function recorded(field, lapsed)
  local number, owner = string.match(get(joins, field) or '', '^(%S+) (.*)$')
  if number and number ~= lapsed and not is_left(number) then
    return number, owner
  end
end

-- What is known of the asker: number, and the account it is tied to ("" = none).
local function known_place(key, account, number, owner, lapsed)
  local tied = account ~= '' and get(accounts, account)
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
    joined, joiner = recorded(key, lapsed)
    if not joined and lapsed ~= '' then
      joined, joiner = recorded(after(lapsed), lapsed)
    end
    if not joined then
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
  local tied_before = get(joins, joined)
  if tied_before and tied_before ~= account then
    return nil
  end
  put(joins, joined, account)
  return joined, account
end

-- The place of the asker, known or new, or a refusal.
local function place(key, account, address, ticket, owner, lapsed, position)
  local number, tied = known_place(key, account, ticket, owner, lapsed)
  local answer = number and number .. ' ' .. tied
  if not number then
    local is_counted = not goes_on(lapsed, position)
    local refused = refusal(account, address, is_counted)
    if refused then
      return refused
    end
    number, tied = new_number(account, address, is_counted), account
    answer = number
    if not is_counted then
      put(joins, after(lapsed), number .. ' ' .. tied)
    end
  elseif tied ~= '' and unwritten >= JOURNAL_MAX and get(accounts, tied) ~= number then
    return 'ceiling'
  end
  put(joins, key, number .. ' ' .. tied)
  if tied ~= '' and get(accounts, tied) ~= number then
    put(accounts, tied, number)
    registered[#registered + 1] = { tied, number }
    unwritten = unwritten + 1
  end
  return answer
end

local answers, first, is_short = {}, upcoming, false
for i = 1, count do
  local account, ticket, owner, lapsed, position, address = '', '', '', '', '', ''
  if others[i] then
    account, ticket, owner, lapsed, position = unpack(ARGV, others[i] + 1, others[i] + 5)
    ticket, lapsed = of_this_run(ticket), of_this_run(lapsed)
  end
  if places_per_ip > 0 then
    address = ARGV[addresses_from + i - 1]
  end
  local answer = place(ARGV[KEYS_FROM + i - 1], account, address, ticket, owner, lapsed, position)
  is_short = is_short or answer == 'ceiling'
  answers[i] = answer
end

-- Nothing is written before all is decided, and the counter goes first: a step cut short may skip
-- numbers, which are absentees then, but none is given twice.
if upcoming > first then
  redis.call('HSET', room_key, counter, text(upcoming), 'places', text(places))
end
write(addresses)
write(joins)
write(accounts)
-- An account's number is also written down in the journal, which a core carries to Postgres.
for _, of in ipairs(registered) do
  redis.call('XADD', journal, '*', 'run', run, 'account', of[1], 'number', of[2])
end
if is_short then
  wake_core(wake)
end
return { text(now), run, table.concat(answers, '\n') }
