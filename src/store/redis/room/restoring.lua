-- Each core gathers a restore under a key of its own, marked with the server on which it began. A
-- server that is another by now, or was emptied again, has no such mark: it is begun anew.
local BEGUN = ''

local function is_begun(restoring)
  return redis.call('HGET', restoring, BEGUN) == server()
end
