#include <jansson.h>
#include "text.h"

static const char *const documents[] = {
    "{\"a\": [1, 2.5, -3e10, true, null, \"\\u00e4\\n\\ud834\\udd1e\"], \"b\": {\"c\": {}}, \"d\": []}",
    "[1, 2", "{\"a\": 1, \"a\": 2}", "[\"\\ud834\"]",
};

int main(void) {
  json_object_seed(20);
  for (unsigned i = 0; i < sizeof documents / sizeof *documents; ++i) {
    json_error_t error;
    json_t *root = json_loads(documents[i], JSON_REJECT_DUPLICATES, &error);
    if (!root) {
      printf("%d:%d %s\n", error.line, error.column, error.text);
      continue;
    }
    for (int flags = 0; flags < 3; ++flags) {
      char *text = json_dumps(root, flags == 0 ? JSON_SORT_KEYS : flags == 1 ? JSON_INDENT(2) : JSON_ENSURE_ASCII);
      puts(text);
      free(text);
    }
    json_t *copy = json_deep_copy(root);
    json_int_t first = 0;
    printf("%d\n", json_equal(root, copy));
    printf("%d\n", json_unpack(copy, "{s:[i]}", "a", &first));
    json_t *packed = json_pack("{s:i,s:[s,f,b]}", "x", 7, "y", "z", 0.25, 1);
    json_object_update(copy, packed);
    char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    puts(text);
    free(text);
    json_decref(packed), json_decref(copy), json_decref(root);
  }
  return 0;
}
