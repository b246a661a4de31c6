/* The score and its slope, on top of `_kernel.h`. */

/* The squares of `_backends.Tilt` at one block of classes, from t + rest = 1/tau. */
typedef struct {
    T two_kappa_t[B], gap_squared[B], t_squared[B];
} Tilt;

INLINE void tilt_of(Tilt *c, const T *kappa, const T *tau) {
    EACH {
        const T t = 1 / tau[i], rest = FMA(-tau[i], t, (T)1) * t;
        const T gap = (kappa[i] - t) - rest;
        c->two_kappa_t[i] = 2 * (kappa[i] * t + kappa[i] * rest);
        c->gap_squared[i] = gap * gap;
        c->t_squared[i] = t * t + 2 * t * rest;
    }
}

/* The tilted square y1, and h = y1 - y0, both without cancellation. */
INLINE void tilted(T *y1, T *h, const Tilt *c, const T *rho) {
    EACH h[i] = rho[i] < -1 ? -1 : rho[i];
    EACH h[i] = h[i] > 1 ? 1 : h[i];
    EACH y1[i] = c->gap_squared[i] + c->two_kappa_t[i] * (1 + h[i]);
    EACH h[i] = c->t_squared[i] + c->two_kappa_t[i] * h[i];
}

/* q and, unless null, slope of rho [rows, columns]; kappa and tau have the given steps. */
EXPORT void EXPORTED(score)(const T *expansion, const T *rho, const T *kappa, const T *tau, T *q,
                            T *slope, int64_t rows, int64_t columns, int64_t kappa_step,
                            int64_t tau_step) {
    const Expansion e = read(expansion);
    Tilt tilt;
    Lower lower;
    Step step;
    for (int64_t first = 0; first < columns; first += B) {
        T room[B], other[B], y0[B], y1[B], h[B], result[B];
        const int64_t count = columns - first;
        if (!first || kappa_step || tau_step) {
            const T *kappas = block(other, kappa + kappa_step * first, kappa_step, count);
            tilt_of(&tilt, kappas, block(room, tau + tau_step * first, tau_step, count));
            EACH y0[i] = kappas[i] * kappas[i];
            lower_point(&lower, &e, y0);
        }
        for (int64_t at = first; at < rows * columns; at += columns) {
            tilted(y1, h, &tilt, block(room, rho + at, 1, count));
            difference(&step, &e, &lower, y1, h, slope != NULL);
            /* ds - a log(1 + x) in two parts: a factor a would scale an underflow of x. */
            EACH {
                const T others = step.corrections[i] + e.a * (step.x[i] - step.log[i]);
                result[i] = others + step.ds[i] * (lower.s[i] * lower.g[i]) + step.down[i];
            }
            store(q + at, result, count);
            if (!slope) continue;
            EACH result[i] = (T)0.5 * tilt.two_kappa_t[i] * step.r[i];
            store(slope + at, result, count);
        }
    }
}
