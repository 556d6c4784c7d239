-- A control law: the in-flight limit grows by one a second while replies are quick, and is cut by
-- a third when half of them take longer than 60 ms at the server.
every("1s", function()
  local limit = get("shop/in_flight.limit")
  local median = p50("shop", "service_time", "2s")
  if not median then return end
  if median > 0.06 then set("shop/in_flight.limit", math.max(1, math.floor(limit * 2 / 3)))
  else set("shop/in_flight.limit", limit + 1) end
end)
