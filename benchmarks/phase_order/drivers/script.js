// Closures, arrays, regular expressions, JSON and exceptions.
function sieve(limit) {
	var marked = [], primes = [];
	for (var i = 2; i <= limit; ++i) {
		if (marked[i]) continue;
		primes.push(i);
		for (var j = i * i; j <= limit; j += i) marked[j] = true;
	}
	return primes;
}
var primes = sieve(1000);
print(primes.length, primes[primes.length - 1]);
print("the quick brown fox".replace(/(\w+) (\w+)/g, "$2 $1"), /a(b|c)*d/.exec("xxabcbd").index);
print(JSON.stringify({a: [1, {b: null}], c: "x\n"}), JSON.parse("[1, 2.5e3, \"z\"]")[1]);
try { undefined.x; } catch (e) { print(e.name); }
var o = {get x() { return 7; }, set x(v) { print("set", v); }};
o.x = o.x + 1;
switch (typeof o) { case "number": print(1); break; case "object": print(2); default: print(3); }
print([3, 1, 2].sort().map(function (x) { return x * x; }).join("-"), parseInt("ff", 16), 0.1 + 0.2, (255).toString(2));
print(new Date(86400000).toISOString(), Math.max(1, 5, 3), isNaN("x"), "abc".charCodeAt(1));
outer: for (var i = 0; i < 3; ++i) for (var j in {p: 1, q: 2}) { if (i == 1) continue outer; print(i, j); }
