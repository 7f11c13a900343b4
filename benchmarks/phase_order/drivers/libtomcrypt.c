#include "tomcrypt.h"
#include "text.h"

int main(void) {
  static unsigned char text[5000], out[64];
  fill_text(text, sizeof text);
  /* The library has tests of its own with published vectors. */
  printf("%d %d %d\n", aes_test(), blowfish_test(), des3_test());
  printf("%d %d %d\n", sha256_test(), md5_test(), sha1_test());
  hash_state state;
  sha256_init(&state);
  sha256_process(&state, text, sizeof text);
  sha256_done(&state, out);
  print_digest("sha256", out, 32);
  symmetric_key key;
  printf("%d\n", aes_setup(text, 32, 0, &key));
  for (int i = 0; i < 4096; i += 16) aes_ecb_encrypt(text + i, text + i, &key);
  print_digest("aes", text, sizeof text);
  return 0;
}
