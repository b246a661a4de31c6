/* The score in three dimensions, in closed form: phi(x) = log(sinh(x)/x). The path from one end to
   the other has two legs, which meet at x = 1.5, as in `three`. */

#define CORNER (T)1.5
#define CORNER_2 (T)2.25

static const T INVERSE_FACTORIAL[] = {
    1, 1, 1 / (T)2, 1 / (T)6, 1 / (T)24, 1 / (T)120, 1 / (T)720, 1 / (T)5040, 1 / (T)40320,
    1 / (T)362880, 1 / (T)3628800, 1 / (T)39916800, 1 / (T)479001600, 1 / (T)6227020800};

/* exp(x) - 1 for x <= 0, with an error of a few eps of its own size, and exp(x). */
INLINE T expm1_below(T x, T *exp) {
    const T at = x < LEAST_LOG ? LEAST_LOG : x;
    const T shifted = at * (T)1.4426950408889634 + ROUND, k = shifted - ROUND;
    const T f = (at - k * LN2_HIGH) - k * LN2_LOW;
    T series = 0;
#pragma GCC unroll 16
    for (int j = EXP_TERMS; j >= 2; j--) series = series * f + INVERSE_FACTORIAL[j];
    const T power = real((bits(shifted) << DIGITS) + ONE); /* 2^k */
    const T rest = (f + f * f * series) * power;
    *exp = power + rest;
    return (power - 1) + rest;
}

/* 2 artanh(z) without its first term, 2z. */
INLINE T artanh_rest(T z, int terms) {
    const T square = z * z;
    T series = 0;
#pragma GCC unroll 16
    for (int j = terms; j >= 1; j--) series = series * square + (T)2 / (2 * j + 1);
    return z * square * series;
}

/* log(x1/x0), where x1 - x0 = dx: the exponent k of x1/x0, and a series for x1/2^k over x0. */
INLINE T log_quotient(T x0, T x1, T dx) {
    const U k = (bits(x1) - bits(x0) + ONE + ((U)1 << (DIGITS - 1))) >> DIGITS;
    const T near = x1 * real((U)(2 * BIAS - k) << DIGITS);
    const T exponent = real(k | TWO_TO_DIGITS) - (real(TWO_TO_DIGITS) + BIAS);
    const T z = (exponent == 0 ? dx : near - x0) / (near + x0);
    return exponent * LN2_HIGH + (2 * z + (artanh_rest(z, LOG_TERMS + 2) + exponent * LN2_LOW));
}

INLINE void three_block(T *q, T *r1, Table c, Table c_slope, int n, const T *kappa, const T *y1,
                        const T *h, int slope) {
    T u0[B], u1[B], h0[B], x0[B], x1[B], dx[B], largest[B], smallest[B];
    EACH {
        const T y0 = kappa[i] * kappa[i];
        const T near0 = y0 < CORNER_2 ? y0 : CORNER_2, near1 = y1[i] < CORNER_2 ? y1[i] : CORNER_2;
        largest[i] = y0 > y1[i] ? y0 : y1[i];
        smallest[i] = y0 < y1[i] ? y0 : y1[i];
        u0[i] = near0 * (1 / CORNER_2);
        u1[i] = near1 * (1 / CORNER_2);
        h0[i] = largest[i] <= CORNER_2 ? h[i] : near1 - near0;
        x0[i] = kappa[i] > CORNER ? kappa[i] : CORNER;
        x1[i] = y1[i] > CORNER_2 ? SQRT(y1[i]) : CORNER;
        dx[i] = (h[i] - h0[i]) / (x0[i] + x1[i]);
    }
    if (all_above(smallest, CORNER_2)) {
        EACH q[i] = r1[i] = 0;
    } else {
        T bend[B], unused[B];
        divided(bend, unused, c, n, u0, u1);
        EACH q[i] = bend[i] * (h0[i] * (1 / CORNER_2));
        if (slope) horner(r1, c_slope, n - 1, u1);
    }
    if (!any_above(largest, CORNER_2)) return;
    T decay[B], rest0[B], decay1[B];
    EACH {
        /* exp(-2x) at the end with the smaller x, and its change to the other end. */
        const int up = dx[i] >= 0;
        T first, ratio;
        expm1_below(-2 * (up ? x0[i] : x1[i]), &first);
        const T change = expm1_below(up ? -2 * dx[i] : 2 * dx[i], &ratio);
        const T second = first * ratio;
        decay[i] = first * (up ? -change : change);
        rest0[i] = 1 - (up ? first : second);
        decay1[i] = up ? second : first;
    }
    EACH {
        const T z = decay[i] / (2 * rest0[i] + decay[i]);
        const T tail = 2 * z + artanh_rest(z, TAIL_TERMS);
        q[i] += dx[i] - (log_quotient(x0[i], x1[i], dx[i]) - tail);
    }
    if (!slope) return;
    EACH {
        /* coth(x)/x - 1/x^2 */
        const T rest = 1 - decay1[i];
        const T far = ((1 + decay1[i]) * x1[i] - rest) / (x1[i] * x1[i] * rest);
        r1[i] = y1[i] < CORNER_2 ? r1[i] : far;
    }
}

/* As `score`. `series` holds n, a polynomial in (x/1.5)^2, and that of r, of n - 1 coefficients. */
EXPORT void EXPORTED(three)(const T *series, const T *rho, const T *kappa, const T *tau, T *q,
                            T *slope, int64_t rows, int64_t columns, int64_t kappa_step,
                            int64_t tau_step) {
    const int n = (int)series[0];
    const Table c = (Table)(series + 1), c_slope = c + n;
    T t[B], rest[B];
    for (int64_t first = 0; first < columns; first += B) {
        T room[B], other[B], y1[B], h[B], result[B], r1[B];
        const int64_t count = columns - first;
        if (tau_step || !first)
            reciprocal(t, rest, block(room, tau + tau_step * first, tau_step, count));
        const T *kappas = block(other, kappa + kappa_step * first, kappa_step, count);
        Tilt tilt;
        tilt_of(&tilt, kappas, t, rest);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t at = row * columns + first;
            tilted(y1, h, &tilt, block(room, rho + at, 1, count));
            three_block(result, r1, c, c_slope, n, kappas, y1, h, slope != NULL);
            store(q + at, result, count);
            if (!slope) continue;
            EACH result[i] = (T)0.5 * tilt.twice[i] * r1[i];
            store(slope + at, result, count);
        }
    }
}
