#include "zstd.h"
#include "text.h"

static unsigned char text[100000], packed[160000], unpacked[100000];

int main(void) {
  fill_text(text, sizeof text);
  for (int level = 1; level < 16; level += 6) {
    size_t size = ZSTD_compress(packed, sizeof packed, text, sizeof text, level);
    print_digest("zstd", packed, size);
    printf("%zu\n", ZSTD_decompress(unpacked, sizeof unpacked, packed, size));
    print_equal(text, unpacked, sizeof text);
    packed[size / 2] ^= 255; /* errors are found as well */
    size_t damaged = ZSTD_decompress(unpacked, sizeof unpacked, packed, size);
    if (ZSTD_isError(damaged)) puts(ZSTD_getErrorName(damaged));
    else print_digest("damaged", unpacked, damaged);
  }
  return 0;
}
