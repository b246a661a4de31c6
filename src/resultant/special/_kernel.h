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

#define EACH _Pragma("omp simd") for (int i = 0; i < B; i++)
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

/* The polynomial (P(u) - P(u0))/(u - u0) in u, n - 1 coefficients for each element. */
INLINE void quotient(T (*c0)[B], Table c, int n, const T *u0) {
    T sum[B];
    EACH sum[i] = 0;
    for (int k = n - 1; k >= 1; k--) {
        EACH sum[i] = sum[i] * u0[i] + c[k][i];
        EACH c0[k - 1][i] = sum[i];
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

/* Both log(1 + x) and log(1 + y), with one division. */
INLINE void log1p_both(T x, T y, T *log_x, T *log_y) {
    T k, l;
    const T f = fraction(x, 1, 1 + x, &k), g = fraction(y, 1, 1 + y, &l);
    const T both = 1 / ((2 + f) * (2 + g));
    *log_x = log_sum(f, f * ((2 + g) * both), k);
    *log_y = log_sum(g, g * ((2 + f) * both), l);
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

/* The lower end of differences of phi, `differences.Lower`. */
typedef struct {
    T y[B], s[B], w[B], g[B], u[B], share[B];
    T log[MOST_TERMS][B];
    /* Where the order is shifted. */
    T half[B], r[B], e1[MOST_TERMS][B];
    /* 1/D of `lommel` below, and the quotients of its polynomials; where y is not too large. */
    T d[B], p[MOST_POWERS][B], q[MOST_POWERS][B];
    int direct;
} Lower;

INLINE int all_below(const T *y, T most) {
    int above = 0;
    for (int i = 0; i < B; i++) above |= !(y[i] <= most);
    return !above;
}

/* r = I_{nu+1}/(x I_nu) obeys r_{j-1} = 1/(2j + y r_j). With r_j = D_{j+1}/D_j this is the linear
   recurrence D_{j-1} = 2j D_j + y D_{j+1}, whose solution is D = P(y) + y r Q(y), with r at the
   order of the expansion and polynomials of positive coefficients (Lommel's, for I): no division,
   no cancellation. Phi at nu is phi at the order of the expansion plus log(D). */
INLINE void lommel(T *d, Table p, Table q, int n, const T *y, const T *r) {
    T high[B], low[B];
    horner(high, p, n, y);
    horner(low, q, n, y);
    EACH d[i] = high[i] + y[i] * r[i] * low[i];
}

INLINE void lower_end(Lower *l, const Expansion *e, const T *y) {
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
    quotient(l->log, e->log, e->n, l->u);
    if (!e->shift) return;
    horner(l->half, e->e1, e->n, l->u);
    EACH l->r[i] = l->g[i] - l->half[i] * l->w[i] * l->w[i];
    quotient(l->e1, e->e1, e->n, l->u);
    l->direct = all_below(y, e->largest);
    if (l->direct) {
        T d[B];
        lommel(d, e->p, e->q, e->powers, y, l->r);
        EACH l->d[i] = 1 / d[i];
        quotient(l->p, e->p, e->powers, y);
        quotient(l->q, e->q, e->powers, y);
    }
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

INLINE void difference(Step *t, const Expansion *e, Lower *l, const T *y1, const T *h,
                             int ratio) {
    const T a = e->a, scale = e->scale;
    T w[B], g[B], u[B], bend[B], inverse[B];
    EACH {
        const T s = SQRT(y1[i] + a * a), both = 1 / (s * (s + a)), sum = l->s[i] + s;
        t->s[i] = s;
        w[i] = both * (s + a);
        g[i] = both * s;
        u[i] = scale * w[i];
        inverse[i] = 1 / sum;
        const T ds = h[i] * inverse[i];
        t->ds[i] = ds + inverse[i] * (h[i] - ds * sum); /* the rounding of the quotient */
    }
    horner(bend, (Table)l->log, e->n - 1, u);
    EACH {
        const T step = t->ds[i] * l->w[i];
        T root;
        t->x[i] = t->ds[i] * l->g[i];
        log1p_both(t->x[i], step, &t->log[i], &root);
        t->corrections[i] = (T)-0.5 * root - step * u[i] * bend[i];
    }
    if (!ratio && !e->shift) return;
    T half[B];
    horner(half, e->e1, e->n, u);
    EACH t->r[i] = g[i] - half[i] * w[i] * w[i];
    if (!e->shift) return;
    T dr[B]; /* the difference of r, divided by h */
    horner(bend, (Table)l->e1, e->n - 1, u);
    EACH {
        const T square = w[i] * w[i], de = -l->u[i] * inverse[i] * w[i] * bend[i];
        dr[i] = square * (l->half[i] * l->w[i] * l->w[i] - de) - inverse[i] * l->g[i] * g[i];
    }
    if (!l->direct || !all_below(y1, e->largest)) {
        EACH dr[i] *= h[i];
        recur(t, e, l, y1, h, t->r, dr);
        return;
    }
    T p1[B], q1[B], dp[B], dq[B], above[B];
    horner(p1, e->p, e->powers, y1);
    horner(q1, e->q, e->powers, y1);
    horner(dp, (Table)l->p, e->powers - 1, y1);
    horner(dq, (Table)l->q, e->powers - 1, y1);
    lommel(above, e->p_above, e->q_above, e->powers, y1, t->r);
    EACH {
        const T y0 = l->y[i], r1 = t->r[i], d1 = p1[i] + y1[i] * r1 * q1[i];
        const T slope = dp[i] + q1[i] * (r1 + y0 * dr[i]) + y0 * l->r[i] * dq[i];
        const T growth = (y1[i] - y0) * slope * l->d[i];
        const T whole = d1 * l->d[i];
        const int near = FABS(growth) < (T)0.5;
        t->r[i] = above[i] / d1;
        /* D is a high power of y, so that the rounding of y1 matters, unless y1 is far below y0.
           The end is y0 + h = sum + lost; log(D) rises by half the difference of the two r. */
        const T sum = y0 + h[i], part = sum - y0;
        const T lost = (y0 - (sum - part)) + (h[i] - part);
        const T miss = y1[i] > (T)0.25 * y0 ? (sum - y1[i]) + lost : 0;
        t->down[i] = log_of(near ? growth : whole, near, near ? 1 + growth : whole)
                     + (T)0.5 * miss * (t->r[i] - r1);
    }
}

/* The classes of a block: the squares of `_backends.Tilt`. */
typedef struct {
    T twice[B], least[B], square[B];
    Lower lower;
} Classes;

INLINE void class_terms(Classes *c, const Expansion *e, const T *kappa, const T *t,
                        const T *rest) {
    T y0[B];
    EACH {
        const T apart = (kappa[i] - t[i]) - rest[i];
        c->twice[i] = 2 * (kappa[i] * t[i] + kappa[i] * rest[i]);
        c->least[i] = apart * apart;
        c->square[i] = t[i] * t[i];
        y0[i] = kappa[i] * kappa[i];
    }
    lower_end(&c->lower, e, y0);
}

/* 1 if all elements are in [low, high], else 0. */
EXPORT int64_t EXPORTED(inside)(const T *x, int64_t count, double low, double high) {
    int64_t outside = 0;
    for (int64_t i = 0; i < count; i++) outside |= !(x[i] >= low && x[i] <= high);
    return !outside;
}

#define GROUP 4

/* q and, unless null, slope of rho [rows, columns]; kappa and tau have the given steps. */
EXPORT void EXPORTED(score)(const T *expansion, const T *rho, const T *kappa, const T *tau,
                                  T *q, T *slope, int64_t rows, int64_t columns,
                                  int64_t kappa_step, int64_t tau_step) {
    const Expansion e = read(expansion);
    Classes classes[GROUP];
    T t[B], rest[B];
    const int shared = !kappa_step && !tau_step;
    for (int64_t left = 0; left < columns; left += GROUP * B) {
        const int64_t wide = columns - left < GROUP * B ? columns - left : GROUP * B;
        const int blocks = (int)((wide + B - 1) / B);
        for (int b = 0; b < blocks && (!left || !shared); b++) {
            T room[B];
            const int64_t first = left + b * B, count = columns - first;
            if (tau_step || !first) {
                const T *taus = block(room, tau + tau_step * first, tau_step, count);
                EACH t[i] = 1 / taus[i];
                EACH rest[i] = FMA(-taus[i], t[i], (T)1) * t[i]; /* t + rest is 1/tau */
            }
            const T *kappas = block(room, kappa + kappa_step * first, kappa_step, count);
            class_terms(&classes[b], &e, kappas, t, rest);
            if (shared) break;
        }
        for (int64_t row = 0; row < rows; row++) {
            for (int b = 0; b < blocks; b++) {
                Classes *c = &classes[shared ? 0 : b];
                const int64_t first = left + b * B, at = row * columns + first;
                T room[B], y1[B], h[B], result[B];
                Step step;
                const T *cosines = block(room, rho + at, 1, columns - first);
                EACH h[i] = cosines[i] < -1 ? -1 : cosines[i];
                EACH h[i] = h[i] > 1 ? 1 : h[i];
                EACH y1[i] = c->least[i] + c->twice[i] * (1 + h[i]);
                EACH h[i] = c->square[i] + c->twice[i] * h[i];
                difference(&step, &e, &c->lower, y1, h, slope != NULL);
                /* ds - a log(1 + x) in two parts: a factor a would scale an underflow of x. */
                EACH {
                    const T others = step.corrections[i] + e.a * (step.x[i] - step.log[i]);
                    result[i] = others + step.ds[i] * c->lower.share[i];
                }
                if (e.shift) EACH result[i] += step.down[i];
                store(q + at, result, columns - first);
                if (slope) {
                    EACH result[i] = (T)0.5 * c->twice[i] * step.r[i];
                    store(slope + at, result, columns - first);
                }
            }
        }
    }
}

