/* What CMake writes. */
#include <stdint.h>
#include <sys/types.h>
#define INITIAL_HASHTABLE_ORDER 3
