#include "lz4frame.h"
#include "text.h"

static unsigned char text[100000], packed[160000], unpacked[100000];

int main(void) {
  fill_text(text, sizeof text);
  for (int level = 0; level < 12; level += 5) {
    LZ4F_preferences_t wanted = LZ4F_INIT_PREFERENCES;
    wanted.compressionLevel = level;
    wanted.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    wanted.frameInfo.blockMode = level ? LZ4F_blockIndependent : LZ4F_blockLinked;
    size_t size = LZ4F_compressFrame(packed, sizeof packed, text, sizeof text, &wanted);
    print_digest("lz4", packed, size);
    LZ4F_dctx *context;
    LZ4F_createDecompressionContext(&context, LZ4F_VERSION);
    size_t done = 0, read = 0, left = 1;
    while (left && !LZ4F_isError(left)) {
      size_t room = sizeof unpacked - done, part = size - read > 1000 ? 1000 : size - read;
      left = LZ4F_decompress(context, unpacked + done, &room, packed + read, &part, NULL);
      done += room, read += part;
    }
    LZ4F_freeDecompressionContext(context);
    printf("%zu %zu\n", left, done);
    print_equal(text, unpacked, sizeof text);
  }
  return 0;
}
