-- Closures, tables, strings, coroutines and the collector.
local function sieve(limit)
  local marked, primes = {}, {}
  for i = 2, limit do
    if not marked[i] then
      primes[#primes + 1] = i
      for j = i * i, limit, i do marked[j] = true end
    end
  end
  return primes
end

local primes = sieve(2000)
print(#primes, primes[#primes])
local words = {}
for word in ("the quick brown fox jumps over the lazy dog"):gmatch("%a+") do
  words[word] = (words[word] or 0) + 1
end
local names = {}
for name in pairs(words) do names[#names + 1] = name end
table.sort(names)
print(table.concat(names, ","))
local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i * i) end end)
print(co(), co(), co())
local point = setmetatable({x = 1}, {__index = function(_, key) return key .. "!" end, __add = function(a, b) return a.x + b.x end})
print(point.y, point + point, 7 // 2, 7 % -3, 2 ^ 0.5, 1 << 40, "10" + 5)
print(select(2, pcall(function() error({code = 42}) end)).code)
print(select(2, pcall(function() return nil + 1 end)))
print(load("return ...", "chunk")(1, 2), select("#", table.unpack({1, nil, 3}, 1, 3)))
goto done
print("skipped")
::done::
collectgarbage()
print(string.format("%5.2f|%q|%x", math.pi, "a\nb", 255), ("abc"):rep(3, "-"), utf8.char(228, 8364))
