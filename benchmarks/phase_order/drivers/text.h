/* What the drivers share: a fixed text, and a digest of results. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the next of a fixed sequence of numbers. */
static unsigned next_number(void) {
  static unsigned state = 20;
  state = state * 1103515245u + 12345u;
  return state >> 16 & 0x7fff;
}

/* Fill a buffer with words, which repeat as those of a text do. */
static inline void fill_text(unsigned char *buffer, size_t size) {
  static const char *const words[] = {"loop ", "phi ", "value ", "store\n", "branch ", "pass ", "order, ", "of "};
  size_t used = 0;
  while (used < size) {
    const char *word = words[next_number() % 8];
    if (next_number() % 16 == 0) {
      buffer[used++] = (unsigned char)(next_number() % 256);
      continue;
    }
    for (; *word && used < size; ++word) buffer[used++] = (unsigned char)*word;
  }
}

/* Print a name, a size and the FNV-1a digest of some bytes. */
static inline void print_digest(const char *name, const void *data, size_t size) {
  const unsigned char *bytes = data;
  unsigned long digest = 14695981039346656037ul;
  for (size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * 1099511628211ul;
  printf("%s %zu %lx\n", name, size, digest);
}

/* Print whether a round trip gave the same bytes. */
static inline void print_equal(const void *before, const void *after, size_t size) {
  puts(memcmp(before, after, size) ? "differs" : "equal");
}
