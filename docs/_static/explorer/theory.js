// Further functions of `vmf` for the pages about the theory: expansions, tails, certificates, bounds.
"use strict";

Object.assign(vmf, (() => {
  // Terms B0, B1, B2 of the expansion in high dimension.
  function jointTerms(rho, kappa, tau, p) {
    const nu = p / 2 - 1;
    const t = 1 / tau;
    const lambda = kappa / nu;
    const w = 1 / Math.hypot(1, lambda);
    const c = lambda * w;
    const across = (1 - rho) * (1 + rho);
    const r0 = c / (1 + w);
    const r1 = (-c * w) / 2;
    const r2 = (c * w ** 2 * (4 * w ** 2 - c ** 2)) / 8;
    const dr0 = w ** 2 / (1 + w);
    const dr1 = (w ** 2 * (c ** 2 - w ** 2)) / 2;
    const ddr0 = (-c * w ** 3 * (2 + w)) / (1 + w) ** 2;
    const shear = (-c * w ** 2) / (1 + w) ** 2;
    const B0 = t * rho * r0;
    const B1 = t * rho * r1 + (t ** 2 / 2) * ((across * w) / (1 + w) + rho ** 2 * dr0);
    const variance = (-across * w ** 2) / 2 + rho ** 2 * dr1;
    const skewness = rho ** 3 * ddr0 + 3 * rho * across * shear;
    const B2 = t * rho * r2 + (t ** 2 / 2) * variance + (t ** 3 / 6) * skewness;
    return [B0, B1, B2];
  }

  // The expansion in high dimension up to an order.
  function expansion(rho, kappa, tau, p, order = 2) {
    const nu = p / 2 - 1;
    return jointTerms(rho, kappa, tau, p).slice(0, order + 1).reduce((sum, B, k) => sum + B / nu ** k, 0);
  }

  // The expansion for large kappa in a fixed dimension, up to an order.
  function fixedExpansion(rho, kappa, tau, p, order = 2) {
    const t = 1 / tau;
    const across = (1 - rho) * (1 + rho);
    const Q1 = (t ** 2 * across) / 2 - ((p - 1) * t * rho) / 2;
    const Q2 = ((p - 1) * (p - 3) * t * rho) / 8 + ((p - 1) * t ** 2 * (2 * rho ** 2 - 1)) / 4 - (t ** 3 * rho * across) / 2;
    return [t * rho, Q1 / kappa, Q2 / kappa ** 2].slice(0, order + 1).reduce((a, b) => a + b);
  }

  // Three terms of the ratio I_{nu+1}(x) / I_nu(x) for large nu.
  function ratioApproximation(nu, x) {
    const s = nu * nu + x * x;
    return x / (nu + Math.sqrt(s)) - x / (2 * s) + (x * (4 * nu * nu - x * x)) / (8 * s ** 2.5);
  }

  // Density of n'Z for Z of vMF(mu, kappa) with n'mu = beta, up to a factor: its logarithm.
  function logProjection(xi, beta, kappa, p) {
    const across = (1 - xi) * (1 + xi);
    if (across <= 0) return p > 3 ? -Infinity : kappa * beta * xi;
    const alpha = Math.sqrt((1 - beta) * (1 + beta));
    return ((p - 3) / 2) * Math.log(across) + kappa * beta * xi + vmf.logSeries((p - 3) / 2, kappa * alpha * Math.sqrt(across));
  }

  // P(n'Z >= xi) by Simpson's rule on both sides of xi.
  function projectionTail(xi, beta, kappa, p, n = 800) {
    if (xi <= -1) return 1;
    if (xi >= 1) return 0;
    const side = (low, high) => Array.from({ length: n + 1 }, (_, i) => logProjection(low + ((high - low) * i) / n, beta, kappa, p));
    const sides = [side(-1, xi), side(xi, 1)];
    const top = Math.max(...sides.flat());
    const area = (values, width) => values.reduce((sum, v, i) => sum + Math.exp(v - top) * (i === 0 || i === n ? 1 : i % 2 ? 4 : 2), 0) * width;
    const [below, above] = [area(sides[0], xi + 1), area(sides[1], 1 - xi)];
    return above / (below + above);
  }

  // The cosine rule and Pure Angular with equal gains, at angle u: cosines, gain, residual and its slope.
  function compared(kappas, tau, p, angle, u) {
    const rho = [Math.cos(u), Math.cos(angle - u)];
    const g = kappas.map((kappa) => vmf.resultant(kappa, p) / tau);
    const mean = (g[0] + g[1]) / 2;
    const residual = rho.map((r, c) => vmf.score(r, kappas[c], tau, p) - g[c] * r);
    const excess = rho.map((r, c) => vmf.slope(r, kappas[c], tau, p) - g[c]);
    return { rho, mean, residual, excess };
  }

  // Margin of the cosine rule and range of the residual at angle u; the certificate holds where the
  // margin is larger.
  function certificate(kappas, tau, p, angle, u) {
    const { rho, mean, residual } = compared(kappas, tau, p, angle, u);
    return { margin: mean * Math.abs(rho[0] - rho[1]), range: Math.abs(residual[0] - residual[1]) };
  }

  // Differences of loss and tangent gradient between the two rules for a query of class 1, with bounds.
  function stability(kappas, tau, p, angle, u) {
    const { rho, mean, residual, excess } = compared(kappas, tau, p, angle, u);
    const soft = (a, b) => [1 / (1 + Math.exp(b - a)), 1 / (1 + Math.exp(a - b))];
    const cosine = soft(mean * rho[0], mean * rho[1]);
    const angular = soft(mean * rho[0] + residual[0], mean * rho[1] + residual[1]);
    const weight = [0, 1].map((c) => mean * (angular[c] - cosine[c]) + (angular[c] - (c === 0)) * excess[c]);
    const epsilon = Math.max(...residual.map(Math.abs));
    const eta = Math.max(...excess.map(Math.abs));
    return {
      loss: Math.abs(Math.log(cosine[0] / angular[0])),
      lossBound: 2 * epsilon,
      gradient: Math.abs(-weight[0] * Math.sin(u) + weight[1] * Math.sin(angle - u)),
      gradientBound: 2 * mean * epsilon + 2 * eta,
    };
  }

  return { jointTerms, expansion, fixedExpansion, ratioApproximation, projectionTail, certificate, stability };
})());
