#include "zopfli.h"
#include "text.h"

int main(void) {
  static unsigned char text[6000];
  ZopfliOptions options;
  fill_text(text, sizeof text);
  ZopfliInitOptions(&options);
  options.numiterations = 3;
  for (int format = ZOPFLI_FORMAT_GZIP; format <= ZOPFLI_FORMAT_DEFLATE; ++format) {
    unsigned char *out = NULL;
    size_t size = 0;
    ZopfliCompress(&options, (ZopfliFormat)format, text, sizeof text, &out, &size);
    print_digest("zopfli", out, size);
    free(out);
  }
  return 0;
}
