/* Bessel functions of one order at many arguments, on top of `_kernel.h`. */

/* The ratio and its derivatives at one block, `differences.RatioSlopes`. */
typedef struct {
    T r[B], complement[B], first[B], second[B];
} Slopes;

/* By one expansion. */
INLINE void slopes_by(Slopes *out, const Expansion *e, const T *x) {
    const T a = e->a;
    T y[B], s[B], w[B], g[B], u[B], e1[B], e2[B], e3[B], d1[B];
    EACH {
        y[i] = x[i] * x[i];
        s[i] = sqrt(y[i] + a * a);
        w[i] = 1 / s[i];
        g[i] = 1 / (s[i] + a);
        u[i] = e->scale * w[i];
    }
    horner(e1, e->e1, e->n, u);
    horner(e2, e->e2, e->n, u);
    horner(e3, e->e3, e->n, u);
    EACH {
        const T square = w[i] * w[i], share = y[i] * square, twice = 2 * e1[i] + e2[i];
        out->r[i] = g[i] - e1[i] * square;
        out->complement[i] = (a + a * a / (s[i] + x[i])) * g[i] + x[i] * e1[i] * square;
        d1[i] = twice * square * square - w[i] * g[i] * g[i];
        out->first[i] = a * w[i] * g[i] - e1[i] * square + share * twice * square;
        const T inner = twice * (1 + 2 * a * a * square) - share * (4 * e1[i] + 4 * e2[i] + e3[i]);
        out->second[i] = square * w[i] * (w[i] * inner - a * (a + 2 * s[i]) * g[i] * g[i]);
    }
    for (int j = 0; j < e->shift; j++) {
        const T step = e->steps[j];
        EACH {
            const T below = 1 / (step + y[i] * out->r[i]), square = below * below;
            const T rest = step - y[i] * out->first[i];
            const T d1_below = -square * (2 * out->r[i] + y[i] * d1[i]);
            out->second[i] = 2 * below * d1_below * rest
                             - square * (2 * out->first[i] + y[i] * out->second[i]);
            out->first[i] = square * rest;
            d1[i] = d1_below;
            out->complement[i] = (step - x[i] * out->complement[i]) * below;
            out->r[i] = below;
        }
    }
}

/* By the expansion or, for s well above its smallest order, by the one at nu itself, `unshifted`. */
INLINE void slopes_at(Slopes *out, const Expansion *e, const Expansion *unshifted, const T *x) {
    T square[B];
    EACH square[i] = x[i] * x[i] + e->nu * e->nu;
    const int beyond = e->shift ? above(square, e->large) : 0;
    if (beyond < B) slopes_by(out, e, x);
    if (!beyond) return;
    Slopes far;
    slopes_by(&far, unshifted, x);
    EACH {
        const int chosen = square[i] >= e->large;
        out->r[i] = chosen ? far.r[i] : out->r[i];
        out->complement[i] = chosen ? far.complement[i] : out->complement[i];
        out->first[i] = chosen ? far.first[i] : out->first[i];
        out->second[i] = chosen ? far.second[i] : out->second[i];
    }
}

/* step + (over + rounded)/(f + low) as the sum of a new f and low, by (30). */
INLINE void divide(T *f, T *low, const T *over, const T *rounded, T step) {
    EACH {
        const T below = 1 / f[i], q = upper(over[i] * below), d = upper(f[i]);
        const T rest = (over[i] - q * d) + rounded[i] - q * ((f[i] - d) + low[i]);
        f[i] = step + (q + rest * below);
        low[i] = ((step - f[i]) + q) + rest * below;
    }
}

/* R by one expansion of an order above nu, by (28) to (30). */
INLINE void ratio_by(T *out, const Expansion *e, const T *x) {
    const T a = e->a;
    T y[B], w[B], u[B], e1[B], f[B], low[B], rounded[B];
    EACH {
        y[i] = x[i] * x[i];
        rounded[i] = -less_square(y[i], x[i]);
        const T most = y[i] < a * a ? a * a : y[i], least = y[i] < a * a ? y[i] : a * a;
        const T square = y[i] + a * a, s = sqrt(square);
        w[i] = 1 / s;
        u[i] = e->scale * w[i];
        f[i] = s + a;
        low[i] = (T)0.5 * w[i] * (less_square(square, s) + (least - (square - most)) + rounded[i])
                 + (a - (f[i] - s));
    }
    horner(e1, e->e1, e->n, u);
    EACH {
        const T part = y[i] * w[i] * w[i] * e1[i], sum = f[i] - part;
        low[i] += (f[i] - sum) - part;
        f[i] = sum;
    }
    for (int j = 1; j < e->shift; j++) divide(f, low, y, rounded, e->steps[j]);
    EACH rounded[i] = 0;
    divide(f, low, x, rounded, 0);
    EACH out[i] = f[i];
}

/* Clamp to where the power 2.2 is finite. */
INLINE void bounded(T *to, const T *x) {
    EACH to[i] = x[i] < -ROOT_LARGEST ? -ROOT_LARGEST : x[i];
    EACH to[i] = to[i] > ROOT_LARGEST ? ROOT_LARGEST : to[i];
}

/* The x with R(x) = r, given r or, if `complement`, 1 - r, by Halley's steps from the start of
   Banerjee et al. */
INLINE void inverse_at(T *x, const Expansion *e, const Expansion *unshifted, const T *value,
                       int complement) {
    const T p = 2 * e->nu + 2;
    const int steps = e->nu < (T)0.5 ? 3 : 2;
    T length[B], rest[B], start[B], at[B];
    EACH {
        length[i] = complement ? 1 - value[i] : value[i];
        rest[i] = complement ? value[i] : 1 - value[i];
        start[i] = length[i] * (p - length[i] * length[i]) / (rest[i] * (1 + length[i]));
        x[i] = start[i];
    }
    for (int step = 0; step < steps; step++) {
        Slopes slopes;
        bounded(at, x);
        slopes_at(&slopes, e, unshifted, at);
        EACH {
            /* Near one the digits are in 1 - r. */
            const T miss = length[i] < (T)0.5 ? at[i] * slopes.r[i] - length[i]
                                              : rest[i] - slopes.complement[i];
            const T newton = miss / slopes.first[i];
            const T bend = (T)0.5 * newton * at[i] * slopes.second[i] / slopes.first[i];
            const T low = bend < (T)-0.5 ? (T)-0.5 : bend;
            x[i] = at[i] - newton / (1 - (low > (T)0.5 ? (T)0.5 : low));
        }
    }
    /* Where squares would overflow the start is exact to the precision. */
    EACH x[i] = start[i] < (T)0.5 * ROOT_LARGEST ? x[i] : start[i];
}

/* The integrals of R and of 1 - R from x0 to x1, of which the first is phi(x1) - phi(x0). At a
   small order the path has two legs, which meet in the corner: beyond it the recurrence would lose
   digits. */
INLINE void integrals(T *ratio, T *complement, const Expansion *e, const Expansion *unshifted,
                      const T *x0, const T *x1) {
    const T corner = e->shift ? sqrt(e->large - e->nu * e->nu) : (T)INFINITY;
    const int legs = above(x0, corner) || above(x1, corner) ? 2 : 1;
    EACH ratio[i] = complement[i] = 0;
    for (int leg = 0; leg < legs; leg++) {
        const Expansion *by = leg ? unshifted : e;
        T a[B], b[B], y0[B], y1[B], h[B];
        Lower lower;
        Step step;
        EACH {
            a[i] = leg ? (x0[i] < corner ? corner : x0[i]) : x0[i] > corner ? corner : x0[i];
            b[i] = leg ? (x1[i] < corner ? corner : x1[i]) : x1[i] > corner ? corner : x1[i];
            y0[i] = a[i] * a[i];
            y1[i] = b[i] * b[i];
            h[i] = (b[i] - a[i]) * (b[i] + a[i]);
        }
        lower_point(&lower, by, y0);
        difference(&step, by, &lower, y1, h, 0);
        EACH {
            const T lag = (by->a / (lower.s[i] + a[i])) * (by->a / (step.s[i] + b[i]));
            const T others = step.corrections[i] + by->a * (step.x[i] - step.log[i]);
            ratio[i] += others + step.ds[i] * (lower.s[i] * lower.g[i]) + step.down[i];
            complement[i] += lag * ((b[i] - a[i]) + step.ds[i]) - step.corrections[i]
                             + by->a * step.log[i] - step.down[i];
        }
    }
}

#define LOG_2PI (T)1.8378770664093454836

/* log I - x without a shift: s - x and the logarithm of (a + s)/x do not cancel. */
INLINE void log_scaled(T *total, const Expansion *e, const T *x) {
    const T a = e->a;
    T s[B], u[B], at[B];
    bounded(at, x);
    EACH s[i] = x[i] > ROOT_LARGEST ? x[i] : sqrt(at[i] * at[i] + a * a);
    EACH u[i] = e->scale / s[i];
    horner(total, e->log, e->n, u);
    EACH {
        const T part = a * (a / (s[i] + x[i])) - (T)0.5 * (log_at(s[i]) + LOG_2PI);
        const T z = a / (x[i] < 1 ? 1 : x[i]);
        const T hyperbolic = a * log1p_at(z + z * (z / (1 + sqrt(1 + z * z))));
        const T inside = a == 0 ? 0 : a * log_at(a + s[i]) - a * log_at(x[i]);
        total[i] += part - (x[i] < 1 ? inside : hyperbolic);
    }
}

/* log I or, if `scaled`, log I - x, from its change since x0, where log I is small: no larger terms
   cancel. Scaled, at a large x they would. */
INLINE void log_bessel_at(T *out, const Expansion *e, const Expansion *unshifted, const T *x,
                          int scaled) {
    const T nu = e->nu, x0 = e->x0, log_x0 = log_at(x0);
    T at[B], start[B], square[B], other[B];
    bounded(at, x);
    EACH start[i] = x0;
    EACH square[i] = at[i] * at[i] + nu * nu;
    if (!scaled || above(square, e->large) < B) {
        integrals(out, other, e, unshifted, start, at);
        EACH {
            const T d = at[i] - x0;
            const int near = fabs(d) < (T)0.5 * x0;
            const T close = log1p_at(near ? d / x0 : 0);
            /* Below one no difference of logarithms cancels, and the quotient may underflow. */
            const T apart = at[i] < 1 ? log_at(at[i]) - log_x0 : log_at(at[i] < 1 ? 1 : at[i] / x0);
            const T power = nu == 0 ? 0 : nu * (near ? close : apart);
            out[i] = e->log0 + (out[i] + power) + (scaled ? -at[i] : x[i] - at[i]);
        }
    }
    if (scaled && above(square, e->large)) {
        log_scaled(other, unshifted, x);
        EACH out[i] = square[i] >= e->large ? other[i] : out[i];
    }
}

/* The kinds of `compiled.KINDS`, in their order. */
enum { RATIO, FIRST, COMPLEMENT, INVERSE, COMPLEMENT_INVERSE, INTEGRAL, COMPLEMENT_INTEGRAL, LOG,
       LOG_SCALED };

/* One function of x or, for the integral of R, of x0 and x. */
EXPORT void EXPORTED(bessel)(const T *expansion, const T *unshifted_expansion, const T *x0,
                             const T *x, T *out, int64_t count, int64_t kind) {
    const Expansion e = read(expansion), unshifted = read(unshifted_expansion);
    for (int64_t first = 0; first < count; first += B) {
        T room[B], other[B], at[B], start[B], result[B], rest[B];
        const T *to = block(room, x + first, 1, count - first);
        bounded(at, to);
        if (kind == RATIO) {
            /* With one step the expansion holds everywhere. */
            EACH rest[i] = at[i] * at[i] + e.nu * e.nu;
            const int beyond = e.shift > 1 ? above(rest, e.large) : 0;
            if (beyond < B) ratio_by(result, &e, at);
            if (beyond) {
                ratio_by(other, &unshifted, at);
                EACH result[i] = rest[i] >= e.large ? other[i] : result[i];
            }
        } else if (kind <= COMPLEMENT) {
            Slopes slopes;
            slopes_at(&slopes, &e, &unshifted, at);
            EACH result[i] = kind == FIRST ? slopes.first[i] : slopes.complement[i];
        } else if (kind <= COMPLEMENT_INVERSE) {
            inverse_at(result, &e, &unshifted, to, kind == COMPLEMENT_INVERSE);
        } else if (kind == INTEGRAL) {
            const T *from = block(other, x0 + first, 1, count - first);
            bounded(start, from);
            integrals(result, rest, &e, &unshifted, start, at);
            EACH result[i] += (to[i] - from[i]) - (at[i] - start[i]);
        } else if (kind == COMPLEMENT_INTEGRAL) {
            EACH start[i] = 0;
            integrals(rest, result, &e, &unshifted, start, to);
        } else {
            log_bessel_at(result, &e, &unshifted, to, kind == LOG_SCALED);
        }
        store(out + first, result, count - first);
    }
}
