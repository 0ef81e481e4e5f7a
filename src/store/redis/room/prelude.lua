-- Opens every step of the room: Redis' clock in milliseconds (fractions kept), and the number
-- formats that lose nothing.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + clock[2] / 1000

-- `tostring` and `..` would cut an instant to 14 digits.
local function text(number)
  return string.format('%.17g', number)
end

local function server()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- A clock that was set back further than this makes it another server, in milliseconds: ticks,
-- slots and ends that it has written lie ahead, and would stop the line until they are reached.
local SET_BACK_MS = 1000

-- A room counts as loaded only on the very server it was loaded on: after a restart or a
-- fail-over the data may be gone or older, and the core restores it first.
local function is_loaded(room)
  local of = redis.call('HMGET', room, 'loaded', 'sale_at')
  return of[1] == server() and tonumber(of[2] or 0) - now <= SET_BACK_MS
end

-- How old figures may be before the core counts as unwell, in milliseconds.
local function is_fresh(figures_at)
  return figures_at and now - figures_at < 2000
end

-- Who reached a ceiling wakes a core that waits on this list.
local function wake_core(wake)
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
  end
end
