-- When buyers wait for long, robots wait longer: their class gets a tenth of its rate for a minute.
every("5s", function()
  local wait = p95("shop/checkout", "response_time", "10s")
  if wait and wait > 1 then
    local usual = mean("shop/robots", "started", "10min") or 1
    local rate = set("shop/robots/egress.rate", usual / 10, { lasts = "1min" })
    log("checkout takes " .. wait .. " s: robots get " .. rate .. "/s")
  end
end)
