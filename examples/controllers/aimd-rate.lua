-- Additive increase, multiplicative decrease of the rate admitted to each application: no history
-- is needed, and the rate follows a capacity that changes.
local step, cut = 0.02, 0.7

every("2s", function()
  for _, application in applications() do
    local knob = application .. "/ingress.rate"
    local arriving = mean(application, "arrived", "4s")
    if arriving then
      local rate = state[application]
      if overloaded(application, { window = "4s" }) then
        rate = cut * (rate or arriving)
        log("warn", string.format("%s is overloaded: %.0f/s from here", application, rate))
      elseif rate then
        rate += step * arriving
        -- More than comes: no limit is needed.
        if rate > 1.5 * arriving then rate = nil end
      end
      state[application] = rate
      if rate then set(knob, rate) else clear(knob) end
    end
  end
end)
