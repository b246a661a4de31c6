/* The kernel in double precision. */

#define T double
#define U uint64_t
#define EXPORTED(name) resultant_##name##_f64
#define B 16
#define DIGITS 52
#define BIAS 1023
#define LOG_TERMS 9
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#define LARGEST DBL_MAX
#define ROOT_LARGEST 1.3e140 /* LARGEST^(1/2.2) */
#include "_kernel.h"
#include "_kernel_score.h"
#include "_kernel_bessel.h"

/* The checksum of the sources, by which `compiled` knows a library of other sources. */
__attribute__((visibility("default"))) int64_t resultant_sources(void) {
    return SOURCES;
}
