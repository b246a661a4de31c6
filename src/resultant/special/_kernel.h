/* The compiled kernel of the Bessel functions and of the score, for CPUs.

   A plain C library without headers of Python or torch, called through ctypes (`compiled.py`). The
   formulas are those of `differences`, `slopes`, `ratio` and `log_i`, which stay the reference; the
   coefficients come from `debye` at run time. `_kernel_f64.c` and `_kernel_f32.c` set the type T
   and include this file. Loops run over blocks of B elements, which compilers turn into vector
   instructions; functions without EXPORT compute one block. Names follow the Python modules: a is
   the order of the expansion, s = sqrt(a^2 + y), w = 1/s, g = 1/(a + s), u = scale/s. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* On x86-64 with glibc a version per instruction set, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define CLONES
#endif
#define EXPORT CLONES __attribute__((visibility("default")))

#define EACH_OF(n) _Pragma("omp simd") for (int i = 0; i < n; i++)
#define EACH EACH_OF(B)
#ifdef __aarch64__
#define PART (B / 2)
#else
#define PART B
#endif
#define MOST_TERMS 44
#define MOST_POWERS 16

/* One expansion of `debye`, as `compiled.py` lays it out. Every coefficient is repeated B times: a
   vector of equal elements is loaded faster than it is made. */
typedef const T (*Table)[B];
typedef struct {
    T nu, a, scale, far, largest;
    int n, shift, powers;
    const T *steps;
    Table log, e1, e2, e3, p, q, p_above, q_above;
} Expansion;

INLINE Expansion read(const T *data) {
    Expansion e = {.nu = data[0], .a = data[1], .scale = data[2], .far = data[3],
                   .largest = data[4], .n = (int)data[5], .shift = (int)data[6],
                   .powers = (int)data[7]};
    e.steps = data + 8;
    e.log = (Table)(e.steps + e.shift);
    e.e1 = e.log + e.n;
    e.e2 = e.e1 + e.n;
    e.e3 = e.e2 + e.n;
    e.p = e.e3 + e.n;
    e.q = e.p + e.powers;
    e.p_above = e.q + e.powers;
    e.q_above = e.p_above + e.powers;
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

/* The value of that polynomial at u1, for a u0 that is used once, in registers: these suffice for
   PART elements. The sums a, b and t change places, so that no sum is copied. */
INLINE void divided(T *bend, T *at0, Table c, int n, const T *u0, const T *u1) {
    for (int j = 0; j < B; j += PART) {
        T a[PART], b[PART], t[PART], x0[PART], x1[PART];
        const int first = n % 3;
        EACH_OF(PART) {
            x0[i] = u0[j + i];
            x1[i] = u1[j + i];
            t[i] = first == 2 ? c[n - 1][i] : 0;
            a[i] = first == 0 ? 0 : first == 1 ? c[n - 1][i] : t[i] * x0[i] + c[n - 2][i];
        }
        for (int k = n - 1 - first; k >= 2; k -= 3) {
            EACH_OF(PART) b[i] = a[i] * x0[i] + c[k][i];
            EACH_OF(PART) a[i] = t[i] * x1[i] + a[i];
            EACH_OF(PART) t[i] = b[i] * x0[i] + c[k - 1][i];
            EACH_OF(PART) b[i] = a[i] * x1[i] + b[i];
            EACH_OF(PART) a[i] = t[i] * x0[i] + c[k - 2][i];
            EACH_OF(PART) t[i] = b[i] * x1[i] + t[i];
        }
        EACH_OF(PART) at0[j + i] = a[i];
        EACH_OF(PART) bend[j + i] = t[i];
    }
}

INLINE U bits(T x) {
    U u;
    memcpy(&u, &x, sizeof u);
    return u;
}

INLINE T real(U u) {
    T x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* log(x + one) for x + one = whole > 0: the exponent k of whole, and a series in f = whole/2^k - 1,
   where whole/2^k is between sqrt(1/2) and sqrt(2). */
INLINE T fraction(T x, T one, T whole, T *exponent) {
    const U k = (bits(whole) + (ONE - ROOT_HALF)) >> DIGITS;
    const T power = real((U)(2 * BIAS - k) << DIGITS); /* 2^-k */
    *exponent = real(k | TWO_TO_DIGITS) - (real(TWO_TO_DIGITS) + BIAS);
    return x * power + (one * power - 1);
}

/* The logarithm from f, z = f/(2 + f) and the exponent. */
INLINE T log_sum(T f, T z, T exponent) {
    const T square = z * z, half = (T)0.5 * f * f;
    T series = (T)2 / (2 * LOG_TERMS + 1);
#pragma GCC unroll 16
    for (int j = LOG_TERMS - 1; j >= 1; j--) series = series * square + (T)2 / (2 * j + 1);
    const T rest = z * (half + square * series) + exponent * LN2_LOW;
    return exponent * LN2_HIGH + (f - (half - rest));
}

INLINE T log_of(T x, T one, T whole) {
    T exponent;
    const T f = fraction(x, one, whole, &exponent);
    return log_sum(f, f / (2 + f), exponent);
}

INLINE T log1p_at(T x) {
    return log_of(x, 1, 1 + x);
}

/* The same of a block, term by term: one element alone would wait for each term. */
typedef struct {
    T f[B], z[B], exponent[B];
} Logs;

#define ALL(x) {[0 ... B - 1] = (T)(x)}
static const T LOG_SERIES[][B] = {ALL(2.0 / 3), ALL(2.0 / 5), ALL(2.0 / 7), ALL(2.0 / 9),
                                  ALL(2.0 / 11), ALL(2.0 / 13), ALL(2.0 / 15), ALL(2.0 / 17),
                                  ALL(2.0 / 19)};

INLINE void log_sums(T *out, const Logs *l) {
    T square[B], series[B];
    Table terms = LOG_SERIES;
    __asm__("" : "+r"(terms)); /* constants in registers would cost a copy per use */
    EACH square[i] = l->z[i] * l->z[i];
    horner(series, terms, LOG_TERMS, square);
    EACH {
        const T half = (T)0.5 * l->f[i] * l->f[i];
        const T rest = l->z[i] * (half + square[i] * series[i]) + l->exponent[i] * LN2_LOW;
        out[i] = l->exponent[i] * LN2_HIGH + (l->f[i] - (half - rest));
    }
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

/* r = I_{nu+1}/(x I_nu) obeys r_{j-1} = 1/(2j + y r_j). With r_j = D_{j+1}/D_j this is the linear
   recurrence D_{j-1} = 2j D_j + y D_{j+1}, whose solution is D = P(y) + y r Q(y), with r at the
   order of the expansion and polynomials of positive coefficients (Lommel's, for I): no division,
   no cancellation. Phi at nu is phi at the order of the expansion plus log(D). */

/* The lower end of differences of phi, `differences.Lower`. */
typedef struct {
    T y[B], s[B], w[B], g[B], u[B], share[B];
    T log[MOST_TERMS][B];
    /* Where the order is shifted. */
    T half[B], r[B], e1[MOST_TERMS][B];
    /* 1/D, and the quotients of its polynomials; where y is not too large. */
    T d[B], p[MOST_POWERS][B], q[MOST_POWERS][B];
    int direct;
} Lower;

INLINE int any_above(const T *y, T least) {
    int above = 0;
    for (int i = 0; i < B; i++) above |= y[i] >= least;
    return above;
}

INLINE int all_above(const T *y, T least) {
    int below = 0;
    for (int i = 0; i < B; i++) below |= !(y[i] >= least);
    return !below;
}

INLINE int all_below(const T *y, T most) {
    int above = 0;
    for (int i = 0; i < B; i++) above |= !(y[i] <= most);
    return !above;
}

INLINE void lower_point(Lower *l, const Expansion *e, const T *y) {
    const T a = e->a, scale = e->scale;
    EACH {
        l->y[i] = y[i];
        l->s[i] = SQRT(y[i] + a * a);
        const T both = 1 / (l->s[i] * (l->s[i] + a));
        l->w[i] = both * (l->s[i] + a);
        l->g[i] = both * l->s[i];
        l->u[i] = scale * l->w[i];
        l->share[i] = l->s[i] * l->g[i];
    }
    l->direct = e->shift && all_below(y, e->largest);
}

/* What the differences from one lower end to many others share. */
INLINE void lower_quotients(Lower *l, const Expansion *e) {
    T unused[B], p0[B], q0[B];
    quotient(l->log, unused, e->log, e->n, l->u);
    if (!e->shift) return;
    quotient(l->e1, l->half, e->e1, e->n, l->u);
    EACH l->r[i] = l->g[i] - l->half[i] * l->w[i] * l->w[i];
    if (!l->direct) return;
    quotient(l->p, p0, e->p, e->powers, l->y);
    quotient(l->q, q0, e->q, e->powers, l->y);
    EACH l->d[i] = 1 / (p0[i] + l->y[i] * l->r[i] * q0[i]);
}

/* Parts of phi(y1) - phi(y0), for h = y1 - y0. */
typedef struct {
    T ds[B], s[B];
    T x[B], log[B];       /* ds/(a + s0), and log(1 + x) */
    T corrections[B];     /* the difference of L - log(s)/2 */
    T down[B];            /* the difference of log(D), from the order of the expansion to nu */
    T r[B];               /* r at y1 */
} Step;

/* The differences of log(D) and r by the recurrence itself, where powers of y might overflow. */
INLINE void recur(Step *t, const Expansion *e, const Lower *l, const T *y1, const T *h,
                        T *r1, T *dr) {
    T r0[B], excess[B], product[B], logs[B];
    EACH {
        r0[i] = l->r[i];
        excess[i] = logs[i] = 0;
        product[i] = 1;
    }
    for (int j = 0; j < e->shift; j++) {
        const T step = e->steps[j];
        EACH {
            const T f0 = step + l->y[i] * r0[i], df = h[i] * r1[i] + l->y[i] * dr[i];
            r0[i] = 1 / f0;
            r1[i] = 1 / (step + y1[i] * r1[i]);
            const T growth = -df * r1[i];
            dr[i] = growth * r0[i];
            excess[i] += growth + excess[i] * growth;
            product[i] *= f0 * r1[i];
        }
        if (j % 4 == 3) {
            EACH {
                logs[i] += log_at(product[i]);
                product[i] = 1;
            }
        }
    }
    EACH {
        const int near = FABS(excess[i]) < (T)0.5;
        const T small = log1p_at(near ? excess[i] : 0);
        t->down[i] = -(near ? small : logs[i] + log_at(product[i]));
        t->r[i] = r1[i];
    }
}

/* With `stored` quotients or, for a lower end that is used once, without. A step of any length,
   not of a score, is `wide`. */
INLINE void difference(Step *t, const Expansion *e, Lower *l, const T *y1, const T *h, int ratio,
                       int stored, int wide) {
    const T a = e->a, scale = e->scale;
    T w[B], g[B], u[B], bend[B], unused[B], inverse[B];
    EACH {
        const T s = SQRT(y1[i] + a * a), sum = l->s[i] + s, rise = 1 + s * l->w[i];
        /* One division for 1/s, 1/(s + a) and 1/sum, which is 1/(s0 rise); a wide step would
           overflow. */
        const T all = 1 / (wide ? s * (s + a) : s * (s + a) * rise);
        t->s[i] = s;
        w[i] = wide ? (s + a) * all : (s + a) * rise * all;
        g[i] = wide ? s * all : s * rise * all;
        u[i] = scale * w[i];
        inverse[i] = wide ? 1 / sum : s * (s + a) * all * l->w[i];
        const T ds = h[i] * inverse[i];
        t->ds[i] = ds + inverse[i] * (h[i] - ds * sum); /* the rounding of the quotient */
    }
    if (stored) horner(bend, (Table)l->log, e->n - 1, u);
    else divided(bend, unused, e->log, e->n, l->u, u);
    Logs near, root;
    T step[B], log_root[B];
    EACH {
        t->x[i] = t->ds[i] * l->g[i];
        step[i] = t->ds[i] * l->w[i];
        const T f = fraction(t->x[i], 1, 1 + t->x[i], &near.exponent[i]);
        const T f_root = fraction(step[i], 1, 1 + step[i], &root.exponent[i]);
        const T both = 1 / ((2 + f) * (2 + f_root));
        near.f[i] = f;
        near.z[i] = f * ((2 + f_root) * both);
        root.f[i] = f_root;
        root.z[i] = f_root * ((2 + f) * both);
    }
    log_sums(t->log, &near);
    log_sums(log_root, &root);
    EACH t->corrections[i] = (T)-0.5 * log_root[i] - step[i] * u[i] * bend[i];
    if (!e->shift) {
        if (!ratio) return;
        horner(bend, e->e1, e->n, u);
        EACH t->r[i] = g[i] - bend[i] * w[i] * w[i];
        return;
    }
    T dr[B]; /* the difference of r, divided by h */
    if (stored) {
        horner(bend, (Table)l->e1, e->n - 1, u);
    } else {
        divided(bend, l->half, e->e1, e->n, l->u, u);
        EACH l->r[i] = l->g[i] - l->half[i] * l->w[i] * l->w[i];
    }
    EACH {
        const T square = w[i] * w[i], de = -l->u[i] * inverse[i] * w[i] * bend[i];
        const T half = l->half[i] + (u[i] - l->u[i]) * bend[i];
        t->r[i] = g[i] - half * square;
        dr[i] = square * (l->half[i] * l->w[i] * l->w[i] - de) - inverse[i] * l->g[i] * g[i];
    }
    if (!l->direct || !all_below(y1, e->largest)) {
        EACH dr[i] *= h[i];
        recur(t, e, l, y1, h, t->r, dr);
        return;
    }
    T p1[B], q1[B], dp[B], dq[B], p2[B], q2[B], rest[B];
    horner(p1, e->p, e->powers, y1);
    horner(q1, e->q, e->powers, y1);
    if (stored) {
        horner(dp, (Table)l->p, e->powers - 1, y1);
        horner(dq, (Table)l->q, e->powers - 1, y1);
    } else {
        T p0[B], q0[B];
        divided(dp, p0, e->p, e->powers, l->y, y1);
        divided(dq, q0, e->q, e->powers, l->y, y1);
        EACH l->d[i] = 1 / (p0[i] + l->y[i] * l->r[i] * q0[i]);
    }
    horner(p2, e->p_above, e->powers, y1);
    horner(q2, e->q_above, e->powers, y1);
    EACH {
        const T y0 = l->y[i], r1 = t->r[i], y1r1 = y1[i] * r1, d1 = p1[i] + y1r1 * q1[i];
        const T slope = dp[i] + q1[i] * (r1 + y0 * dr[i]) + y0 * l->r[i] * dq[i];
        const T growth = (y1[i] - y0) * slope * l->d[i];
        const T whole = d1 * l->d[i];
        const int is_near = FABS(growth) < (T)0.5;
        const T f = fraction(is_near ? growth : whole, is_near, is_near ? 1 + growth : whole,
                             &near.exponent[i]);
        const T both = 1 / ((2 + f) * d1);
        near.f[i] = f;
        near.z[i] = f * (d1 * both);
        t->r[i] = (p2[i] + y1r1 * q2[i]) * ((2 + f) * both);
        /* D is a high power of y, so that the rounding of y1 matters, unless y1 is far below y0.
           The end is y0 + h = sum + lost; log(D) rises by half the difference of the two r. */
        const T sum = y0 + h[i], part = sum - y0;
        const T lost = (y0 - (sum - part)) + (h[i] - part);
        const T miss = y1[i] > (T)0.25 * y0 ? (sum - y1[i]) + lost : 0;
        rest[i] = (T)0.5 * miss * (t->r[i] - r1);
    }
    log_sums(t->down, &near);
    EACH t->down[i] += rest[i];
}

/* 1 if all elements are in [low, high], else 0. */
EXPORT int64_t EXPORTED(inside)(const T *x, int64_t count, double low, double high) {
    int64_t outside = 0;
    for (int64_t i = 0; i < count; i++) outside |= !(x[i] >= low && x[i] <= high);
    return !outside;
}
