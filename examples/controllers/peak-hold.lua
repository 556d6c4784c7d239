-- While an application is overloaded, admit a little less than the most it has answered well in an
-- hour: what has piled up drains, and the server always has something to do.
local share = 0.95

every("1s", function()
  for _, application in applications() do
    local rate = application .. "/ingress.rate"
    local peak = max(application, "goodput", "1h")
    if peak and peak > 0 and overloaded(application) then
      -- Lets go by itself if this script should end.
      set(rate, share * peak, { lasts = "30s" })
    else
      clear(rate)
    end
  end
end)
