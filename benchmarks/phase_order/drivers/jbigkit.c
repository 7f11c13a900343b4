#include "jbig.h"
#include "text.h"

#define SIDE 256

static unsigned char image[SIDE * SIDE / 8], file[60000];
static size_t written;

static void put(unsigned char *start, size_t size, void *data) {
  (void)data;
  memcpy(file + written, start, size);
  written += size;
}

int main(void) {
  for (int y = 0; y < SIDE; ++y)
    for (int x = 0; x < SIDE; ++x)
      if (((x - 90) * (x - 90) + (y - 120) * (y - 120)) / 500 % 2 || next_number() % 64 == 0)
        image[(y * SIDE + x) / 8] |= (unsigned char)(128 >> x % 8);
  for (int layers = 0; layers < 3; ++layers) {
    unsigned char *planes[1] = {image};
    struct jbg_enc_state encoder;
    struct jbg_dec_state decoder;
    written = 0;
    jbg_enc_init(&encoder, SIDE, SIDE, 1, planes, put, NULL);
    jbg_enc_layers(&encoder, layers);
    jbg_enc_out(&encoder);
    jbg_enc_free(&encoder);
    print_digest("jbig", file, written);
    jbg_dec_init(&decoder);
    printf("%d\n", jbg_dec_in(&decoder, file, written, NULL));
    print_digest("image", jbg_dec_getimage(&decoder, 0), jbg_dec_getsize(&decoder));
    jbg_dec_free(&decoder);
  }
  return 0;
}
