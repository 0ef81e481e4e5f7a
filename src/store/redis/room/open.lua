-- The second step of the opening: n is durable, the seed is revealed, positions are fixed.
-- KEYS control room
-- ARGV run n seed key opened_at_ms signature
-- Answers 1 if this call opened it
local control_key, room_key = unpack(KEYS)
local run, n, seed, key, opened_at, signature = unpack(ARGV)
if not is_loaded(room_key) or redis.call('HGET', control_key, 'run') ~= run
  or redis.call('HGET', room_key, 'n') or not redis.call('HGET', room_key, 'frozen') then
  return 0
end
redis.call('HSET', room_key, 'n', n, 'seed', seed, 'key', key, 'opened_at_ms', opened_at,
  'signature', signature)
return 1
