/* The derivatives of the score in kappa and in tau, on top of `_kernel_score.h`. */

/* R(x1) - R(x0), r(x1) - r(x0) and r(x1) with r = R/x, `differences.ratio_difference` and
   `differences.inner_ratio_difference`, for h = y1 - y0. */
typedef struct {
    T dR[B], dr[B], r1[B];
} RatioStep;

INLINE void ratio_step(RatioStep *out, const Expansion *e, const T *x0, const T *x1, const T *y0,
                       const T *y1, const T *h) {
    const T a = e->a;
    T u0[B], u1[B], half0[B], bend[B], r0[B], dx[B], c[MOST_TERMS][B];
    EACH u0[i] = e->scale / SQRT(y0[i] + a * a);
    EACH u1[i] = e->scale / SQRT(y1[i] + a * a);
    quotient(c, half0, e->e1, e->n, u0);
    horner(bend, (Table)c, e->n - 1, u1);
    EACH {
        const T s0 = SQRT(y0[i] + a * a), s1 = SQRT(y1[i] + a * a), sum = x0[i] + x1[i];
        const T w0 = 1 / s0, w1 = 1 / s1, g0 = 1 / (s0 + a), g1 = 1 / (s1 + a);
        const T square = w0 * w1, ds = h[i] / (s0 + s1), de = -u0[i] * ds * w1 * bend[i];
        const T cross = x1[i] * s0 + x0[i] * s1;
        dx[i] = h[i] / (sum > TINY ? sum : TINY);
        r0[i] = g0 - half0[i] * w0 * w0;
        out->r1[i] = g1 - (half0[i] + (u1[i] - u0[i]) * bend[i]) * w1 * w1;
        out->dr[i] = w1 * w1 * (half0[i] * h[i] * w0 * w0 - de) - ds * g0 * g1;
        out->dR[i] = a * g0 * g1 * (dx[i] + a * h[i] / (cross > TINY ? cross : TINY))
                     - dx[i] * square * ((a * a - x0[i] * x1[i]) * square) * half0[i]
                     - x1[i] * w1 * w1 * de;
    }
    for (int j = 0; j < e->shift; j++) {
        const T step = e->steps[j];
        EACH {
            const T df = h[i] * out->r1[i] + y0[i] * out->dr[i];
            r0[i] = 1 / (step + y0[i] * r0[i]);
            out->r1[i] = 1 / (step + y1[i] * out->r1[i]);
            const T both = r0[i] * out->r1[i];
            out->dr[i] = -df * both;
            out->dR[i] = both * (step * dx[i] - x0[i] * x1[i] * out->dR[i]);
        }
    }
}

/* dq/dkappa and dq/dtau of a block; see `_derivatives`. */
INLINE void partials_block(T *by_kappa, T *by_tau, const Expansion *e, const Expansion *unshifted,
                           const T *rho, const T *kappa, const T *t, const T *rest,
                           const Tilt *tilt) {
    T y0[B], x1[B], y1[B], h[B], least[B];
    RatioStep step, beyond;
    tilted(y1, h, tilt, rho);
    EACH {
        y0[i] = kappa[i] * kappa[i];
        x1[i] = SQRT(y1[i]);
        least[i] = (y0[i] < y1[i] ? y0[i] : y1[i]) + e->nu * e->nu;
    }
    ratio_step(&step, e, kappa, x1, y0, y1, h);
    /* Far above a small order the recurrence would lose digits of the difference of R. */
    if (e->shift && any_above(least, e->large)) {
        ratio_step(&beyond, unshifted, kappa, x1, y0, y1, h);
        EACH step.dR[i] = least[i] >= e->large ? beyond.dR[i] : step.dR[i];
    }
    EACH {
        const T low = rho[i] < -1 ? -1 : rho[i], cosine = low > 1 ? 1 : low;
        const T r1 = step.r1[i], along = kappa[i] + t[i] * cosine;
        const T across = tilt->t_squared[i] * ((1 - cosine) * (1 + cosine));
        const T sum = x1[i] + FABS(along);
        const T gap = along >= 0 ? across / (sum > TINY ? sum : TINY) : x1[i] - along;
        const T turn = r1 * gap, lead = t[i] * cosine * r1, other = kappa[i] * step.dr[i];
        /* Of two sums the one whose terms are smaller; the other's terms vanish with the squares. */
        const int small = FABS(lead) + FABS(other) < FABS(step.dR[i]) + turn
                          || y0[i] + y1[i] < (T)1e-30;
        by_kappa[i] = small ? lead + other : step.dR[i] - turn;
        /* t + kappa rho, which cancels near rho = -1 */
        const T product = kappa[i] * cosine, lost = FMA(kappa[i], cosine, -product);
        by_tau[i] = -(t[i] * t[i]) * ((t[i] + product) + (lost + rest[i])) * r1;
    }
}

/* dq/dkappa and dq/dtau, each unless null, of rho [rows, columns], as `score`. */
EXPORT void EXPORTED(partials)(const T *expansion, const T *unshifted_expansion, const T *rho,
                               const T *kappa, const T *tau, T *by_kappa, T *by_tau, int64_t rows,
                               int64_t columns, int64_t kappa_step, int64_t tau_step) {
    const Expansion e = read(expansion), unshifted = read(unshifted_expansion);
    T t[B], rest[B];
    for (int64_t first = 0; first < columns; first += B) {
        T room[B], other[B], of_kappa[B], of_tau[B];
        const int64_t count = columns - first;
        if (tau_step || !first)
            reciprocal(t, rest, block(room, tau + tau_step * first, tau_step, count));
        const T *kappas = block(other, kappa + kappa_step * first, kappa_step, count);
        Tilt tilt;
        tilt_of(&tilt, kappas, t, rest);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t at = row * columns + first;
            const T *cosines = block(room, rho + at, 1, count);
            partials_block(of_kappa, of_tau, &e, &unshifted, cosines, kappas, t, rest, &tilt);
            if (by_kappa) store(by_kappa + at, of_kappa, count);
            if (by_tau) store(by_tau + at, of_tau, count);
        }
    }
}
