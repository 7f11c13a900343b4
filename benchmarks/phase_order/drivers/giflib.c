#include "gif_lib.h"
#include "text.h"

#define SIDE 80

/* No header has it. */
int GifQuantizeBuffer(unsigned, unsigned, int *, GifByteType *, GifByteType *, GifByteType *, GifByteType *,
                      GifColorType *);

static unsigned char file[60000];
static size_t written, taken;

static int put(GifFileType *gif, const GifByteType *data, int size) {
  (void)gif;
  memcpy(file + written, data, (size_t)size);
  written += (size_t)size;
  return size;
}

static int take(GifFileType *gif, GifByteType *data, int size) {
  (void)gif;
  memcpy(data, file + taken, (size_t)size);
  taken += (size_t)size;
  return size;
}

int main(void) {
  static GifByteType red[SIDE * SIDE], green[SIDE * SIDE], blue[SIDE * SIDE], pixels[SIDE * SIDE];
  GifColorType colours[64];
  int count = 64, error = 0;
  for (int i = 0; i < SIDE * SIDE; ++i) {
    red[i] = (GifByteType)(i % SIDE * 3), green[i] = (GifByteType)(i / SIDE * 3);
    blue[i] = (GifByteType)(next_number() % 64);
  }
  printf("%d %d\n", GifQuantizeBuffer(SIDE, SIDE, &count, red, green, blue, pixels, colours), count);
  GifFileType *gif = EGifOpen(NULL, put, &error);
  ColorMapObject *map = GifMakeMapObject(64, colours);
  EGifPutScreenDesc(gif, SIDE, SIDE, 8, 0, map);
  EGifPutImageDesc(gif, 0, 0, SIDE, SIDE, 0, NULL);
  for (int y = 0; y < SIDE; ++y) EGifPutLine(gif, pixels + y * SIDE, SIDE);
  printf("%d\n", EGifCloseFile(gif, &error));
  print_digest("gif", file, written);
  GifFileType *back = DGifOpen(NULL, take, &error);
  printf("%d %d\n", DGifSlurp(back), back->ImageCount);
  print_equal(pixels, back->SavedImages[0].RasterBits, sizeof pixels);
  printf("%d\n", DGifCloseFile(back, &error));
  GifFreeMapObject(map);
  return 0;
}
