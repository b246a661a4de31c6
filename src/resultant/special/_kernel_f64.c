/* The kernel in double precision. */

#define T double
#define U uint64_t
#define EXPORTED(name) resultant_##name##_f64
#define B 16
#define DIGITS 52
#define BIAS 1023
#define ONE 0x3ff0000000000000u
#define ROOT_HALF 0x3fe6a09e667f3bcdu
#define TWO_TO_DIGITS 0x4330000000000000u
#define LOG_TERMS 9
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#define SQRT sqrt
#define FMA fma
#define FABS fabs
#define LARGEST 0x1.fffffffffffffp1023
#define ROOT_LARGEST 1.3e140 /* LARGEST^(1/2.2) */
#include "_kernel.h"
#include "_kernel_score.h"
#include "_kernel_bessel.h"

/* The checksum of the sources, by which `compiled` knows a library of other sources. */
__attribute__((visibility("default"))) int64_t resultant_sources(void) {
    return SOURCES;
}
