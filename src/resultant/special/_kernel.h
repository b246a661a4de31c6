/* The compiled kernel of the Bessel functions and of the score, for CPUs, called through ctypes.

   Formulas and names are those of `differences` and `ratio`; coefficients come from `debye` at run
   time. `_kernel_f64.c` and `_kernel_f32.c` set the type T and include this file. Loops run over
   blocks of B elements, which compilers turn into vector instructions; functions without EXPORT
   compute one block. */

#include <float.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

#define INLINE static inline __attribute__((always_inline))

/* On x86-64 with glibc a version per level of instructions, chosen when the library is loaded; older
   compilers know no levels. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES
#endif
#define EXPORT CLONES __attribute__((visibility("default")))

#define EACH _Pragma("omp simd") for (int i = 0; i < B; i++)
#define MOST_TERMS 44
#define ROOT_HALF (T)0.70710678118654752
/* Factors of a product that neither overflows nor underflows, and values near one. */
#define GROUP 4
#define IS_NEAR(excess) ((excess) > (T)-0.5 && (excess) < 3)

/* One expansion of `debye`, as `compiled.py` lays it out. Every coefficient is repeated B times: a
   vector of equal elements is loaded faster than it is made. */
typedef const T (*Table)[B];
typedef struct {
    T nu, a, scale, large, x0, log0; /* log0 is log I_nu(x0) */
    int n, shift;
    const T *steps;
    Table log, e1, e2, e3;
} Expansion;

INLINE Expansion read(const T *data) {
    Expansion e = {.nu = data[0], .a = data[1], .scale = data[2], .large = data[3], .x0 = data[4],
                   .log0 = data[5], .n = (int)data[6], .shift = (int)data[7]};
    e.steps = data + 8;
    e.log = (Table)(e.steps + e.shift);
    e.e1 = e.log + e.n;
    e.e2 = e.e1 + e.n;
    e.e3 = e.e2 + e.n;
    return e;
}

/* A block of the input, as it is or, if incomplete, with its last element repeated in `room`. */
INLINE const T *block(T *room, const T *from, int64_t step, int64_t count) {
    if (step && count >= B) return from;
    const int64_t last = step ? count - 1 : 0;
    EACH room[i] = from[i < last ? i : last];
    return room;
}

INLINE void store(T *to, const T *from, int64_t count) {
    memcpy(to, from, sizeof(T) * (count < B ? count : B));
}

INLINE void horner(T *total, Table c, int n, const T *u) {
    T sum[B];
    EACH sum[i] = 0;
    for (int k = n - 1; k >= 0; k--) EACH sum[i] = sum[i] * u[i] + c[k][i];
    EACH total[i] = sum[i];
}

/* The polynomial (P(u) - P(u0))/(u - u0) in u, n - 1 coefficients for each element, and P(u0). */
INLINE void quotient(T (*c0)[B], T *at0, Table c, int n, const T *u0) {
    T sum[B];
    EACH sum[i] = 0;
    for (int k = n - 1; k >= 1; k--) {
        EACH sum[i] = sum[i] * u0[i] + c[k][i];
        EACH c0[k - 1][i] = sum[i];
    }
    EACH at0[i] = sum[i] * u0[i] + c[0][i];
}

/* The bits of a number, and the number of bits. */
typedef union { T x; U u; } Bits;
INLINE U bits(T x) { return ((Bits){.x = x}).u; }
INLINE T real(U u) { return ((Bits){.u = u}).x; }

/* The upper half of the digits, whose products are exact. */
INLINE T upper(T x) { return real(bits(x) >> (DIGITS / 2 + 1) << (DIGITS / 2 + 1)); }

/* y - x^2 for y near x^2, without the rounding of the square. */
INLINE T less_square(T y, T x) {
    const T h = upper(x);
    return (y - h * h) - (x - h) * (x + h);
}

/* log(x + one) for x + one = whole > 0: the exponent k of whole, and a series in f = whole/2^k - 1,
   where whole/2^k is between sqrt(1/2) and sqrt(2). */
INLINE T log_of(T x, T one, T whole) {
    const U k = (bits(whole) + (bits(1) - bits(ROOT_HALF))) >> DIGITS;
    const T power = real((U)(2 * BIAS - k) << DIGITS); /* 2^-k */
    const T whole_numbers = real((U)(BIAS + DIGITS) << DIGITS); /* from where on T has no others */
    const T exponent = real(k | bits(whole_numbers)) - (whole_numbers + BIAS);
    const T f = x * power + (one * power - 1), z = f / (2 + f);
    const T square = z * z, half = (T)0.5 * f * f;
    T series = (T)2 / (2 * LOG_TERMS + 1);
#pragma GCC unroll 16
    for (int j = LOG_TERMS - 1; j >= 1; j--) series = series * square + (T)2 / (2 * j + 1);
    const T rest = z * (half + square * series) + exponent * LN2_LOW;
    return exponent * LN2_HIGH + (f - (half - rest));
}

INLINE T log1p_at(T x) {
    return log_of(x, 1, 1 + x);
}

INLINE T log_at(T x) {
    const T ends = x == 0 ? -(T)INFINITY : x > LARGEST ? (T)INFINITY : (T)NAN;
    /* Powers of two at both ends of the range are no normal numbers. */
    const T factor = x < 1 ? 16777216 : 1 / (T)16777216, shift = x < 1 ? -24 : 24;
    const T scaled = x * factor;
    const int inner = x > (T)1e-30 && x < (T)1e30;
    const T value = log_of(inner ? x : scaled, 0, inner ? x : scaled);
    return x > 0 && x <= LARGEST ? value + (inner ? 0 : shift * (T)0.69314718055994531) : ends;
}

/* The lower end of differences of phi. */
typedef struct {
    T y[B], s[B], w[B], g[B], u[B];
    T log[MOST_TERMS][B], half[B], e1[MOST_TERMS][B]; /* quotients, and the value of e1 */
} Lower;

/* The number of elements from `least` on. */
INLINE int above(const T *y, T least) {
    int count = 0;
    for (int i = 0; i < B; i++) count += y[i] >= least;
    return count;
}

INLINE void lower_point(Lower *l, const Expansion *e, const T *y) {
    const T a = e->a;
    T unused[B];
    EACH {
        l->y[i] = y[i];
        l->s[i] = sqrt(y[i] + a * a);
        const T both = 1 / (l->s[i] * (l->s[i] + a));
        l->w[i] = both * (l->s[i] + a);
        l->g[i] = both * l->s[i];
        l->u[i] = e->scale * l->w[i];
    }
    quotient(l->log, unused, e->log, e->n, l->u);
    if (e->shift) quotient(l->e1, l->half, e->e1, e->n, l->u);
}

/* Parts of phi(y1) - phi(y0), for h = y1 - y0. */
typedef struct {
    T ds[B], s[B];
    T x[B], log[B];       /* ds/(a + s0), and log(1 + x) */
    T corrections[B];     /* the difference of L - log(s)/2 */
    T down[B];            /* the difference of phi at nu and at the order of the expansion */
    T r[B];               /* r at y1 */
} Step;

/* The recurrence r_{j-1} = 1/(2j + y r_j) at both ends, from the order of the expansion down to nu;
   `differences._down`. */
INLINE void recur(Step *t, const Expansion *e, const T *y0, T *r0, const T *y1, T *dr,
                  const T *h) {
    T *r1 = t->r;
    for (int first = 0; first < e->shift; first += GROUP) {
        T excess[B], product[B];
        EACH excess[i] = 0;
        EACH product[i] = 1;
        for (int j = first; j < first + GROUP && j < e->shift; j++) {
            const T step = e->steps[j];
            EACH {
                const T f0 = step + y0[i] * r0[i], f1 = step + y1[i] * r1[i];
                /* y1 r1 - y0 r0; errors of dr times the larger y would grow with every step. */
                const T least = h[i] < 0 ? y1[i] : y0[i];
                const T change = h[i] * (h[i] < 0 ? r0[i] : r1[i]) + least * dr[i];
                r0[i] = 1 / f0;
                r1[i] = 1 / f1;
                const T growth = -change * r1[i];
                dr[i] = growth * r0[i];
                excess[i] += growth + excess[i] * growth;
                product[i] *= f0 * r1[i];
            }
        }
        int far = 0;
        for (int i = 0; i < B; i++) far |= !IS_NEAR(excess[i]);
        if (far) EACH product[i] = log_at(product[i]);
        EACH {
            const int near = IS_NEAR(excess[i]);
            t->down[i] -= near ? log1p_at(near ? excess[i] : 0) : product[i];
        }
    }
}

/* phi(y1) - phi(y0) for h = y1 - y0 by (15) and, if `ratio`, r(y1). The same stands in torch in
   `differences.phi_difference` and in Triton in `score/kernel.py`: change all three. */
INLINE void difference(Step *t, const Expansion *e, const Lower *l, const T *y1, const T *h,
                       int ratio) {
    const T a = e->a;
    T w[B], g[B], u[B], bend[B], step[B], log_root[B];
    EACH {
        const T s = sqrt(y1[i] + a * a), both = 1 / (s * (s + a)), sum = l->s[i] + s;
        const T inverse = 1 / sum, ds = h[i] * inverse;
        t->s[i] = s;
        w[i] = (s + a) * both;
        g[i] = s * both;
        u[i] = e->scale * w[i];
        t->ds[i] = ds + inverse * (h[i] - ds * sum); /* the rounding of the quotient */
    }
    horner(bend, (Table)l->log, e->n - 1, u);
    EACH t->x[i] = t->ds[i] * l->g[i];
    EACH step[i] = t->ds[i] * l->w[i];
    EACH t->log[i] = log1p_at(t->x[i]);
    EACH log_root[i] = log1p_at(step[i]);
    EACH t->corrections[i] = (T)-0.5 * log_root[i] - step[i] * u[i] * bend[i];
    EACH t->down[i] = 0;
    if (!e->shift) {
        if (!ratio) return;
        horner(bend, e->e1, e->n, u);
        EACH t->r[i] = g[i] - bend[i] * w[i] * w[i];
        return;
    }
    T r0[B], dr[B];
    horner(bend, (Table)l->e1, e->n - 1, u);
    EACH {
        const T square = w[i] * w[i], de = -l->u[i] * t->ds[i] * w[i] * bend[i];
        const T half = l->half[i] + (u[i] - l->u[i]) * bend[i];
        r0[i] = l->g[i] - l->half[i] * l->w[i] * l->w[i];
        t->r[i] = g[i] - half * square;
        dr[i] = square * (l->half[i] * h[i] * l->w[i] * l->w[i] - de) - t->ds[i] * l->g[i] * g[i];
    }
    recur(t, e, l->y, r0, y1, dr, h);
}
