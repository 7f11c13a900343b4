#include "bzlib.h"
#include "text.h"

void bz_internal_error(int code) { printf("internal error %d\n", code); exit(2); }

static char text[120000], packed[160000], unpacked[120000];

int main(void) {
  unsigned size = sizeof packed, back = sizeof unpacked;
  fill_text((unsigned char *)text, sizeof text);
  printf("%d\n", BZ2_bzBuffToBuffCompress(packed, &size, text, sizeof text, 1, 0, 0));
  print_digest("bzip2", packed, size);
  printf("%d %u\n", BZ2_bzBuffToBuffDecompress(unpacked, &back, packed, size, 0, 0), back);
  print_equal(text, unpacked, sizeof text);
  return 0;
}
