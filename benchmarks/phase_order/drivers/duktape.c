#include "duktape.h"
#include "text.h"

static const char *const scripts[] = {
    "var s = 0; for (var i = 0; i < 5000; i++) { s = (s * 31 + i) % 65521; } s",
    "[3, 1, 2].sort().map(function (x) { return x * x; }).join('-')",
    "'the quick brown fox'.replace(/(\\w+) (\\w+)/g, '$2 $1')",
    "JSON.stringify({a: [1, {b: null}], c: 'x\\u00e4'}, null, 1)",
    "var o = {}; Object.defineProperty(o, 'x', {get: function () { return 7; }}); o.x + Object.keys({p: 1, q: 2}).length",
    "new Date(86400000).toISOString() + parseInt('ff', 16) + (0.1 + 0.2) + (1e21).toString(36)",
    "try { null.x; } catch (e) { e.name; }",
    "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); } f(15)",
    "eval('1 +')",
};

int main(void) {
  duk_context *context = duk_create_heap_default();
  for (unsigned i = 0; i < sizeof scripts / sizeof *scripts; ++i) {
    printf("%d ", duk_peval_string(context, scripts[i]));
    puts(duk_safe_to_string(context, -1));
    duk_pop(context);
  }
  duk_destroy_heap(context);
  return 0;
}
