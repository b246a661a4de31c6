/* The kernel in single precision. */

#define T float
#define U uint32_t
#define EXPORTED(name) resultant_##name##_f32
#define B 32
#define DIGITS 23
#define BIAS 127
#define LOG_TERMS 4
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define LARGEST FLT_MAX
#define ROOT_LARGEST 3.2e17f /* LARGEST^(1/2.2) */
#include "_kernel.h"
#include "_kernel_score.h"
#include "_kernel_bessel.h"
