#include "cJSON.h"
#include "cJSON_Utils.h"
#include "text.h"

static const char *const before = "{\"a\": [1, 2.5, true, \"\\u00e4\\n\"], \"b\": {\"c\": null, \"d\": -1e30}, \"e\": []}";
static const char *const after = "{\"a\": [1, 3.5, \"x\"], \"b\": {\"c\": {\"f\": 1}}, \"g\": \"new\"}";

static void show(const cJSON *item) {
  char *text = cJSON_Print(item), *plain = cJSON_PrintUnformatted(item);
  printf("%s\n%s\n", text, plain);
  free(text), free(plain);
}

int main(void) {
  cJSON *from = cJSON_Parse(before), *to = cJSON_Parse(after);
  show(from);
  cJSON *patch = cJSONUtils_GeneratePatches(from, to);
  show(patch);
  printf("%d\n", cJSONUtils_ApplyPatches(from, patch));
  show(from);
  printf("%d\n", cJSON_Compare(from, to, 1));
  show(cJSONUtils_GetPointer(to, "/b/c/f"));
  cJSON *merge = cJSONUtils_GenerateMergePatch(from, patch);
  show(merge);
  cJSONUtils_SortObject(from);
  show(from);
  printf("%d\n", cJSON_Parse("[1, 2") == NULL);
  return 0;
}
