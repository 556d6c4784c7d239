-- MASTH's law (WWW 2009, fig. 2b): while overloaded, admit to Home 60 % of the most it has ever
-- answered well in a day, since those who are let in at Home go on to everything else.
every("5s", function()
  if overloaded() then set("shop/home/ingress.rate", 0.6 * max("shop/home", "goodput", "1d"))
  else clear("shop/home/ingress.rate") end
end)
