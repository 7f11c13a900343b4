#include "gsm.h"
#include "text.h"

int main(void) {
  gsm encoder = gsm_create(), decoder = gsm_create();
  for (int number = 0; number < 40; ++number) {
    gsm_signal samples[160], back[160];
    gsm_byte frame[33];
    for (int i = 0; i < 160; ++i) samples[i] = (gsm_signal)((i * (number % 7 + 1) * 397) % 16000 - 8000 + next_number() % 99);
    gsm_encode(encoder, samples, frame);
    print_digest("frame", frame, sizeof frame);
    printf("%d\n", gsm_decode(decoder, frame, back));
    print_digest("samples", back, sizeof back);
  }
  gsm_destroy(encoder), gsm_destroy(decoder);
  return 0;
}
