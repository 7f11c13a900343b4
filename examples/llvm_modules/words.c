/* Functions for a search of the order of passes, compiled to words.ll:
   clang-22 --target=x86_64-unknown-linux-gnu -O2 -Xclang -disable-llvm-passes -fno-discard-value-names -S -emit-llvm words.c */

typedef unsigned char byte;
typedef unsigned int word;
typedef unsigned long size;

static word rotate(word value, int bits) { return (value << bits) | (value >> (32 - bits)); }

word hash_bytes(const byte *data, size length) {
  word hash = 2166136261u;
  for (size i = 0; i < length; i++) {
    hash ^= data[i];
    hash *= 16777619u;
    if (i % 16 == 15) hash = rotate(hash, 13);
  }
  return hash;
}

static int is_space(byte c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static int is_digit(byte c) { return c >= '0' && c <= '9'; }

size count_words(const byte *text, size length) {
  size words = 0;
  int inside = 0;
  for (size i = 0; i < length; i++) {
    if (is_space(text[i])) inside = 0;
    else if (!inside) { inside = 1; words++; }
  }
  return words;
}

int parse_number(const byte *text, size length, long *result) {
  size i = 0;
  int negative = 0;
  long value = 0;
  while (i < length && is_space(text[i])) i++;
  if (i < length && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
  if (i == length || !is_digit(text[i])) return 0;
  for (; i < length && is_digit(text[i]); i++) value = value * 10 + (text[i] - '0');
  *result = negative ? -value : value;
  return 1;
}

void sort_words(word *data, size length) {
  for (size gap = length / 2; gap > 0; gap /= 2)
    for (size i = gap; i < length; i++) {
      word value = data[i];
      size j = i;
      for (; j >= gap && data[j - gap] > value; j -= gap) data[j] = data[j - gap];
      data[j] = value;
    }
}

long find_word(const word *data, size length, word value) {
  size low = 0, high = length;
  while (low < high) {
    size middle = low + (high - low) / 2;
    if (data[middle] == value) return (long)middle;
    if (data[middle] < value) low = middle + 1;
    else high = middle;
  }
  return -1;
}

void multiply(const double *a, const double *b, double *c, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double total = 0;
      for (int k = 0; k < n; k++) total += a[i * n + k] * b[k * n + j];
      c[i * n + j] = total;
    }
}

int decode(byte opcode, int a, int b) {
  switch (opcode) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return b ? a / b : 0;
    case 4: return a & b;
    case 5: return a | b;
    case 6: return a ^ b;
    case 7: return a << (b & 31);
    case 8: return a >> (b & 31);
    case 9: return a < b ? a : b;
    case 10: return a > b ? a : b;
    default: return 0;
  }
}

word run(const byte *program, size length, int *stack) {
  size top = 0;
  for (size i = 0; i + 1 < length; i += 2) {
    int left = top > 0 ? stack[top - 1] : 0;
    stack[top] = decode(program[i], left, program[i + 1]);
    if (top < 31) top++;
  }
  return hash_bytes((const byte *)stack, top * sizeof(int));
}
