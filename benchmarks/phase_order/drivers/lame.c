#include <math.h>
#include "lame.h"
#include "text.h"

static short left[40000], right[40000];
static unsigned char out[100000];

int main(void) {
  for (int i = 0; i < 40000; ++i) {
    left[i] = (short)(9000 * sin(i * 0.031) + 4000 * sin(i * i * 0.00001));
    right[i] = (short)(left[i] / 2 + next_number() % 512);
  }
  for (int mode = 0; mode < 2; ++mode) {
    lame_t flags = lame_init();
    lame_set_in_samplerate(flags, 44100);
    lame_set_bWriteVbrTag(flags, 0);
    if (mode) lame_set_VBR(flags, vbr_default);
    else lame_set_brate(flags, 128);
    printf("%d\n", lame_init_params(flags));
    int size = lame_encode_buffer(flags, left, right, 40000, out, sizeof out);
    size += lame_encode_flush(flags, out + size, (int)sizeof out - size);
    print_digest("lame", out, (size_t)size);
    lame_close(flags);
  }
  return 0;
}
