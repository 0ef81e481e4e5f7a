-- Hashes as one step sees them: asked for many fields at once, and written at the step's end in one
-- call each. What the step itself puts is seen by whoever looks later in it.
local function fields_of(key)
  return { key = key, seen = {}, news = {} }
end

-- Asks at once for the fields that stand in ARGV from one index to another.
local function look(hash, from, to)
  for at, value in ipairs(redis.call('HMGET', hash.key, unpack(ARGV, from, to))) do
    hash.seen[ARGV[from + at - 1]] = value
  end
end

-- A field's value, or false.
local function get(hash, field)
  local value = hash.seen[field]
  if value == nil then
    value = redis.call('HGET', hash.key, field)
    hash.seen[field] = value
  end
  return value
end

local function put(hash, field, value)
  if get(hash, field) ~= value then
    local news = hash.news
    local last = #news
    hash.seen[field], news[last + 1], news[last + 2] = value, field, value
  end
end

-- `unpack` takes about 8,000 values: no step puts as many.
local function write(hash)
  if hash.news[1] then
    redis.call('HSET', hash.key, unpack(hash.news))
  end
end
