/* The score and its slope, on top of `_kernel.h`. */

/* The squares of `_backends.Tilt` at one block of classes, from t + rest = 1/tau. */
typedef struct {
    T two_kappa_t[B], gap_squared[B], t_squared[B];
} Tilt;

INLINE void reciprocal(T *t, T *rest, const T *tau) {
    EACH t[i] = 1 / tau[i];
    EACH rest[i] = FMA(-tau[i], t[i], (T)1) * t[i];
}

INLINE void tilt_of(Tilt *c, const T *kappa, const T *t, const T *rest) {
    EACH {
        const T gap = (kappa[i] - t[i]) - rest[i];
        c->two_kappa_t[i] = 2 * (kappa[i] * t[i] + kappa[i] * rest[i]);
        c->gap_squared[i] = gap * gap;
        c->t_squared[i] = t[i] * t[i] + 2 * t[i] * rest[i];
    }
}

/* The tilted square y1, and h = y1 - y0, both without cancellation. */
INLINE void tilted(T *y1, T *h, const Tilt *c, const T *rho) {
    EACH h[i] = rho[i] < -1 ? -1 : rho[i];
    EACH h[i] = h[i] > 1 ? 1 : h[i];
    EACH y1[i] = c->gap_squared[i] + c->two_kappa_t[i] * (1 + h[i]);
    EACH h[i] = c->t_squared[i] + c->two_kappa_t[i] * h[i];
}

typedef struct {
    Tilt tilt;
    Lower lower;
} Classes;

INLINE void class_terms(Classes *c, const Expansion *e, const T *kappa, const T *t, const T *rest,
                        int stored) {
    T y0[B];
    tilt_of(&c->tilt, kappa, t, rest);
    EACH y0[i] = kappa[i] * kappa[i];
    lower_point(&c->lower, e, y0);
    if (stored) lower_quotients(&c->lower, e);
}

INLINE void score_block(const Expansion *e, Classes *c, const T *rho, T *q, T *slope,
                        int64_t count, int stored) {
    T room[B], y1[B], h[B], result[B];
    Step step;
    tilted(y1, h, &c->tilt, block(room, rho, 1, count));
    difference(&step, e, &c->lower, y1, h, slope != NULL, stored, 0);
    /* ds - a log(1 + x) in two parts: a factor a would scale an underflow of x. */
    EACH {
        const T others = step.corrections[i] + e->a * (step.x[i] - step.log[i]);
        result[i] = others + step.ds[i] * c->lower.share[i] + step.down[i];
    }
    store(q, result, count);
    if (!slope) return;
    EACH result[i] = (T)0.5 * c->tilt.two_kappa_t[i] * step.r[i];
    store(slope, result, count);
}

#define BLOCKS 4

/* q and, unless null, slope of rho [rows, columns]; kappa and tau have the given steps. */
EXPORT void EXPORTED(score)(const T *expansion, const T *rho, const T *kappa, const T *tau, T *q,
                            T *slope, int64_t rows, int64_t columns, int64_t kappa_step,
                            int64_t tau_step) {
    const Expansion e = read(expansion);
    Classes classes[BLOCKS];
    T t[B], rest[B];
    const int shared = !kappa_step && !tau_step, once = rows == 1 && !shared;
    for (int64_t left = 0; left < columns; left += BLOCKS * B) {
        const int64_t wide = columns - left < BLOCKS * B ? columns - left : BLOCKS * B;
        const int blocks = (int)((wide + B - 1) / B);
        for (int b = 0; b < blocks && (!left || !shared); b++) {
            T room[B];
            const int64_t first = left + b * B, count = columns - first;
            if (tau_step || !first)
                reciprocal(t, rest, block(room, tau + tau_step * first, tau_step, count));
            const T *kappas = block(room, kappa + kappa_step * first, kappa_step, count);
            if (once) {
                class_terms(classes, &e, kappas, t, rest, 0);
                score_block(&e, classes, rho + first, q + first, slope ? slope + first : NULL,
                            count, 0);
            } else {
                class_terms(&classes[b], &e, kappas, t, rest, 1);
            }
            if (shared) break;
        }
        for (int64_t row = 0; row < rows && !once; row++) {
            for (int b = 0; b < blocks; b++) {
                const int64_t first = left + b * B, at = row * columns + first;
                score_block(&e, &classes[shared ? 0 : b], rho + at, q + at,
                            slope ? slope + at : NULL, columns - first, 1);
            }
        }
    }
}
