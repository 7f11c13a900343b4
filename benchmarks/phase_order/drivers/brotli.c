#include <brotli/decode.h>
#include <brotli/encode.h>
#include "text.h"

static unsigned char text[100000], packed[160000], unpacked[100000];

int main(void) {
  fill_text(text, sizeof text);
  for (int quality = 1; quality < 12; quality += 4) {
    size_t size = sizeof packed, back = sizeof unpacked;
    printf("%d\n", BrotliEncoderCompress(quality, 18, BROTLI_MODE_TEXT, sizeof text, text, &size, packed));
    print_digest("brotli", packed, size);
    printf("%d\n", (int)BrotliDecoderDecompress(size, packed, &back, unpacked));
    print_equal(text, unpacked, sizeof text);
  }
  return 0;
}
