// The exact von Mises-Fisher score in the browser, in double precision.
//
// With nu = p/2 - 1, the score is log S(r) - log S(kappa), where S is the power series of the Bessel
// function I_nu without its first factor and r = |kappa mu + z/tau|. All terms of S are positive, so
// nothing cancels inside a sum.
"use strict";

const vmf = (() => {
  // log of S(x) = sum over k of (x^2/4)^k / (k! (nu+1)(nu+2)...(nu+k)).
  function logSeries(nu, x) {
    const y = (x * x) / 4;
    let term = 1;
    let sum = 1;
    let scale = 0;
    for (let k = 1; ; k++) {
      const factor = y / (k * (nu + k));
      term *= factor;
      sum += term;
      if (factor < 0.9 && term < 1e-17 * sum) return scale + Math.log(sum);
      if (sum > 1e250) {
        scale += Math.log(sum);
        term /= sum;
        sum = 1;
      }
    }
  }

  // I_{nu+1}(x) / (x I_nu(x)), the Bessel ratio I_{nu+1}(x) / I_nu(x), and that of a class.
  const quotient = (nu, x) => Math.exp(logSeries(nu + 1, x) - logSeries(nu, x)) / (2 * (nu + 1));
  const ratio = (nu, x) => x * quotient(nu, x);
  const resultant = (kappa, p) => ratio(p / 2 - 1, kappa);

  function length(rho, kappa, tau) {
    const t = 1 / tau;
    return Math.sqrt(Math.max(0, (kappa - t) ** 2 + 2 * kappa * t * (1 + rho)));
  }

  // `base` is the term of kappa alone, for callers that have it.
  function score(rho, kappa, tau, p, base = logSeries(p / 2 - 1, kappa)) {
    return logSeries(p / 2 - 1, length(rho, kappa, tau)) - base;
  }

  function slope(rho, kappa, tau, p) {
    return (kappa / tau) * quotient(p / 2 - 1, length(rho, kappa, tau));
  }

  // Scores of classes as functions of the cosine; see `class_scores` in the library. A target gain
  // that is not positive has no temperature.
  function realize(kappas, tau, p, realization, beta, resultants = kappas.map((kappa) => resultant(kappa, p))) {
    const g = resultants.map((A) => A / tau);
    const mean = g.reduce((a, b) => a + b) / g.length;
    return kappas.map((kappa, c) => {
      const target = realization === "native" ? g[c] : mean + beta * (g[c] - mean);
      if (realization === "cosine") return { score: (rho) => mean * rho, slope: () => mean, gain: mean };
      const added = realization === "angular" ? target - g[c] : 0;
      const own = realization === "temperature" || realization === "preserve" ? (tau * g[c]) / target : tau;
      if (!(own > 0)) return { score: () => NaN, slope: () => NaN, gain: target };
      const base = logSeries(p / 2 - 1, kappa);
      const kept = realization === "preserve" ? score(0, kappa, tau, p, base) - score(0, kappa, own, p, base) : 0;
      return { score: (rho) => score(rho, kappa, own, p, base) + added * rho + kept, slope: (rho) => slope(rho, kappa, own, p) + added, gain: target };
    });
  }

  // Angle from the first class at which two scores are equal on the arc of `angle`; NaN without one.
  function boundary(rules, angle) {
    const gap = (u) => rules[0].score(Math.cos(u)) - rules[1].score(Math.cos(angle - u));
    let [low, high] = [0, angle];
    if (!(gap(low) > 0 && gap(high) < 0)) return NaN;
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (gap(middle) > 0) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  return { logSeries, ratio, resultant, score, slope, realize, boundary };
})();
