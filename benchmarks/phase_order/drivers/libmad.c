#include "mad.h"
#include "text.h"

/* A stream of frames of all layers with arbitrary contents: they decode to noise or to errors. */
int main(void) {
  static unsigned char data[30 * 417 + MAD_BUFFER_GUARD];
  struct mad_stream stream;
  struct mad_frame frame;
  struct mad_synth synth;
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (unsigned char)next_number();
  for (int i = 0; i < 30; ++i) {
    unsigned char *head = data + i * 417;
    head[0] = 0xff, head[1] = i % 3 == 0 ? 0xfb : 0xfd, head[2] = i % 3 == 0 ? 0x90 : 0x80, head[3] = i % 2 ? 0x44 : 0xc4;
    if (i % 3) continue;
    head[4] = 0, head[5] = 0;                                /* main data begins in this frame */
    for (int j = 6; j < 36; ++j) head[j] &= j % 3 ? 0x11 : 1; /* small sizes in the side information */
  }
  mad_stream_init(&stream), mad_frame_init(&frame), mad_synth_init(&synth);
  mad_stream_buffer(&stream, data, sizeof data);
  for (int i = 0; i < 60; ++i) {
    int failed = mad_frame_decode(&frame, &stream);
    printf("%d %x\n", failed, (unsigned)stream.error);
    if (failed && !MAD_RECOVERABLE(stream.error)) break;
    if (failed) continue;
    mad_synth_frame(&synth, &frame);
    print_digest("samples", synth.pcm.samples[0], synth.pcm.length * sizeof(mad_fixed_t));
  }
  return 0;
}
