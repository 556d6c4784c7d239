every("5s", function()
  if overloaded() then set("shop/home/ingress.rate", 0.6 * max("shop/home", "goodput", "1d"))
  else clear("shop/home/ingress.rate") end
end)
