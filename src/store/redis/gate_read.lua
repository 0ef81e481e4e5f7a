-- Reads a gate with its markers at one instant.
-- KEYS: the SKU's stock hash and its takes hash.
return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}
