/* The score and its slope, on top of `_kernel.h`. */

/* Rows that a block of columns walks down at a time. The rows lie on pages of their own: those of a
   tall matrix are more than the processor remembers. */
#define ROWS 64

/* q and, unless null, slope of rho [rows, columns]; kappa and tau have the given steps. */
EXPORT void EXPORTED(score)(const T *expansion, const T *rho, const T *kappa, const T *tau, T *q,
                            T *slope, int64_t rows, int64_t columns, int64_t kappa_step,
                            int64_t tau_step) {
    const Expansion e = read(expansion);
    T two_kappa_t[B], gap_squared[B], t_squared[B]; /* the squares of `_backends.Tilt` */
    Lower lower;
    Step step;
    for (int64_t top = 0; top < rows; top += ROWS) {
        const int64_t end = top + ROWS < rows ? top + ROWS : rows;
        for (int64_t first = 0; first < columns; first += B) {
            T room[B], other[B], y0[B], y1[B], h[B], result[B];
            const int64_t count = columns - first;
            if (!first || kappa_step || tau_step) {
                const T *kappas = block(other, kappa + kappa_step * first, kappa_step, count);
                const T *taus = block(room, tau + tau_step * first, tau_step, count);
                EACH {
                    const T t = 1 / taus[i], rest = fma(-taus[i], t, (T)1) * t; /* 1/tau - t */
                    const T gap = (kappas[i] - t) - rest;
                    two_kappa_t[i] = 2 * (kappas[i] * t + kappas[i] * rest);
                    gap_squared[i] = gap * gap;
                    t_squared[i] = t * t + 2 * t * rest;
                }
                EACH y0[i] = kappas[i] * kappas[i];
                lower_point(&lower, &e, y0);
            }
            for (int64_t at = top * columns + first; at < end * columns; at += columns) {
                const T *cosine = block(room, rho + at, 1, count);
                EACH h[i] = cosine[i] < -1 ? -1 : cosine[i];
                EACH h[i] = h[i] > 1 ? 1 : h[i];
                /* The tilted square, and its difference to y0, both without cancellation. */
                EACH y1[i] = gap_squared[i] + two_kappa_t[i] * (1 + h[i]);
                EACH h[i] = t_squared[i] + two_kappa_t[i] * h[i];
                difference(&step, &e, &lower, y1, h, slope != NULL);
                /* ds - a log(1 + x) in two parts: a factor a would scale an underflow of x. */
                EACH {
                    const T others = step.corrections[i] + e.a * (step.x[i] - step.log[i]);
                    result[i] = others + step.ds[i] * (lower.s[i] * lower.g[i]) + step.down[i];
                }
                store(q + at, result, count);
                if (!slope) continue;
                EACH result[i] = (T)0.5 * two_kappa_t[i] * step.r[i];
                store(slope + at, result, count);
            }
        }
    }
}
