#include "qrencode.h"
#include "text.h"

static void show(QRcode *code) {
  if (!code) {
    puts("none");
    return;
  }
  printf("version %d\n", code->version);
  print_digest("code", code->data, (size_t)(code->width * code->width));
  QRcode_free(code);
}

int main(void) {
  static unsigned char data[700];
  fill_text(data, sizeof data);
  for (int level = QR_ECLEVEL_L; level <= QR_ECLEVEL_H; ++level) {
    show(QRcode_encodeString("HTTPS://EXAMPLE.ORG/12345678901234567890", 0, (QRecLevel)level, QR_MODE_8, 1));
    show(QRcode_encodeString("mixed TEXT 0123456789 and more", 0, (QRecLevel)level, QR_MODE_8, 1));
    show(QRcode_encodeData(sizeof data, data, 0, (QRecLevel)level));
    show(QRcode_encodeStringMQR("12345", 0, (QRecLevel)level, QR_MODE_8, 1));
  }
  return 0;
}
