-- A place that was missed goes on as a new one, which counts in its stead.
-- The field of `joins` that says as which.
local function after(number)
  return 'after ' .. number
end
