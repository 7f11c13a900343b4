#include "potracelib.h"
#include "text.h"

#define SIDE 128
#define WORD (8 * (int)sizeof(potrace_word))

int main(void) {
  static potrace_word words[SIDE * SIDE / (8 * sizeof(potrace_word))];
  potrace_bitmap_t bitmap = {SIDE, SIDE, SIDE / WORD, words};
  for (int y = 0; y < SIDE; ++y)
    for (int x = 0; x < SIDE; ++x) {
      int r = (x - 60) * (x - 60) + (y - 64) * (y - 64);
      if ((r < 2500 && r > 900) || (x > 100 && y > x / 2) || (x + y) % 37 == 0)
        words[(y * SIDE + x) / WORD] |= (potrace_word)1 << (WORD - 1 - x % WORD);
    }
  potrace_param_t *param = potrace_param_default();
  potrace_state_t *state = potrace_trace(param, &bitmap);
  for (potrace_path_t *path = state->plist; path; path = path->next) {
    printf("area %d, sign %c\n", path->area, path->sign);
    for (int i = 0; i < path->curve.n; ++i) {
      potrace_dpoint_t *points = path->curve.c[i];
      printf("%d %.9f %.9f %.9f %.9f\n", path->curve.tag[i], points[1].x, points[1].y, points[2].x, points[2].y);
    }
  }
  potrace_state_free(state), potrace_param_free(param);
  return 0;
}
