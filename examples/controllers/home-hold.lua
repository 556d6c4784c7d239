-- Holds the peak by Home alone: those who are let in at Home go on to everything else, so as many may enter
-- as keep `target` requests in flight at the server, enough to keep it busy and too few to slow it. With
-- more in flight the limit sinks by up to 3 % a second, with fewer it rises; at five times as many the
-- door is shut until they are gone.
local target, limit = 20, nil

every("1s", function()
  local load = (mean("shop", "in_flight", "1s") or 0) / target
  local entering = mean("shop/home", "started", "10s") or 0
  if load > 1 then limit = limit or entering end
  if not limit then return end
  limit = math.clamp(limit * (1.03 - 0.03 * math.min(load, 2)), 1, math.max(1.5 * entering, 10))
  if load < 0.5 and limit > 1.2 * entering then limit = nil end -- fewer come than may
  if limit then set("shop/home/ingress.rate", load > 5 and 1 or limit) else clear("shop/home/ingress.rate") end
end)
