#include <lzo/lzo1a.h>
#include <lzo/lzo1x.h>
#include "text.h"

static unsigned char text[60000], packed[90000], unpacked[60000];

static void round_trip(const char *name, lzo_compress_t pack, lzo_decompress_t unpack, size_t memory) {
  void *work = calloc(1, memory);
  lzo_uint size = sizeof packed, back = sizeof unpacked;
  printf("%d\n", pack(text, sizeof text, packed, &size, work));
  print_digest(name, packed, size);
  printf("%d\n", unpack(packed, size, unpacked, &back, work));
  print_equal(text, unpacked, sizeof text);
  free(work);
}

int main(void) {
  fill_text(text, sizeof text);
  printf("%d\n", lzo_init());
  round_trip("lzo1x_1", lzo1x_1_compress, lzo1x_decompress, LZO1X_1_MEM_COMPRESS);
  round_trip("lzo1x_999", lzo1x_999_compress, lzo1x_decompress_safe, LZO1X_999_MEM_COMPRESS);
  round_trip("lzo1a", lzo1a_compress, lzo1a_decompress, LZO1A_MEM_COMPRESS);
  printf("%x %x\n", lzo_adler32(1, text, sizeof text), lzo_crc32(0, text, sizeof text));
  return 0;
}
