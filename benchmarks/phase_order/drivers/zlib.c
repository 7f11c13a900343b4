#include "zlib.h"
#include "text.h"

static unsigned char text[100000], packed[160000], unpacked[100000];

int main(void) {
  fill_text(text, sizeof text);
  for (int level = 0; level <= 9; level += 3) {
    uLongf size = sizeof packed, back = sizeof unpacked;
    printf("%d\n", compress2(packed, &size, text, sizeof text, level));
    print_digest("zlib", packed, size);
    printf("%d\n", uncompress(unpacked, &back, packed, size));
    print_equal(text, unpacked, sizeof text);
  }
  return 0;
}
