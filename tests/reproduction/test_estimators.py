"""The share of the estimator in the effect: every number computed again from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm

from frozen_data import TAU, C, fitted, ratio, rows, score, small_space
from paper_evidence import OfSpaces, seeds
from resultant.analysis import FrozenSpace, Policy, decide
from resultant_reproduction import ARTEFACTS, Evidence, Records, refits
from resultant_reproduction.contrasts import complete
from resultant_reproduction.evidence import mle_changes, over_datasets
from resultant_reproduction.plan import controlled
from resultant_reproduction.refits import CLIP, cross_fitted, gain_spread, leave_out, stratified
from training_records import record


@pytest.fixture(scope="module")
def space() -> FrozenSpace:
    return small_space()


def test_folds_are_even_and_keep_identities(space: FrozenSpace) -> None:
    fold = stratified(space, 5, seed=3)
    for c in range(C):
        sizes = torch.bincount(fold[space.labels == c], minlength=5)
        assert int(sizes.max() - sizes.min()) <= 1
    names = torch.arange(len(space.labels)) // 3
    split = small_space(identities=names, fitting_share=0.7)
    fold = stratified(split, 5, seed=3)
    assert split.fitting is not None and bool(((fold >= 0) == split.fitting).all())
    for owner in (split.labels * len(names) + names).unique():
        assert len(fold[split.labels * len(names) + names == owner].unique()) == 1


def by_definition(mu: np.ndarray, kappa: np.ndarray, A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The scores [2, C] of a query, native and Pure Angular."""
    rho = mu @ x
    q = score(rho, kappa, TAU)
    return np.stack([q, q + (A.mean() - A) / TAU * rho])


def test_leave_out_by_fitting_again(space: FrozenSpace) -> None:
    result = leave_out(space, most=120, seed=2)
    assert result.rows == 120
    chosen = refits.scored_rows(space, 120, 2)
    x, y = rows(torch.as_tensor(space.train[:])), space.labels.numpy()
    mu, kappa = space.state.mu.numpy(), space.state.kappa.numpy()
    A = np.array([ratio(space.dim, k) for k in kappa])
    moved, hits = [], []
    for i in chosen.tolist():
        others = (y == y[i]) & (np.arange(len(y)) != i)
        own_mu, own_kappa, own_A = mu.copy(), kappa.copy(), A.copy()
        own_mu[y[i]], own_kappa[y[i]] = fitted(x[others])
        own_A[y[i]] = ratio(space.dim, float(own_kappa[y[i]]))
        with_it, without = (
            by_definition(mu, kappa, A, x[i]),
            by_definition(own_mu, own_kappa, own_A, x[i]),
        )
        moved.append(with_it[0, y[i]] - without[0, y[i]])
        hits.append([s.argmax(1) == y[i] for s in (with_it, without)])
    assert result.increment.mean == pytest.approx(np.mean(moved), rel=1e-6)
    assert result.increment.sd == pytest.approx(np.std(moved, ddof=1), rel=1e-6)
    shares = 100 * np.mean(hits, axis=0)
    for r, rule in enumerate(("native", "angular")):
        assert result.included[rule] == pytest.approx(shares[0, r])
        assert result.left_out[rule] == pytest.approx(shares[1, r])
        assert result.change[rule].mean == pytest.approx(shares[1, r] - shares[0, r])
    assert result.added_included.mean == pytest.approx(shares[0, 1] - shares[0, 0])
    assert result.added_left_out.mean == pytest.approx(shares[1, 1] - shares[1, 0])
    # Query by query: what Pure Angular has more than native without the row, less that with it.
    more = np.diff(np.array(hits, dtype=float), axis=2)[:, :, 0]
    change = 100 * (more[:, 1] - more[:, 0])
    assert result.added_change.mean == pytest.approx(change.mean())
    reach = norm.ppf(0.975) * change.std() / np.sqrt(len(change))
    assert result.added_change.high == pytest.approx(change.mean() + reach)
    # Having the row in its class helps it.
    assert result.increment.mean > 0 and result.change["native"].mean < 0


def fold_by_definition(
    x: np.ndarray, y: np.ndarray, tau: str, A_ref: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Directions, concentrations and temperatures of classes from rows, as they are or by
    eq:cross-fit-temperature."""
    mu, kappa, A = [], [], []
    for c in range(C):
        own = x[y == c]
        mean, n = own.mean(0), len(own)
        R = np.linalg.norm(mean)
        if tau == "crossed":
            R = np.sqrt(max((n * R**2 - 1) / (n - 1), 0))
        mu.append(mean / np.linalg.norm(mean))
        A.append(R)
        kappa.append(brentq(lambda k, R=R: ratio(x.shape[1], k) - R, 1e-12, 1e4, xtol=1e-13))
    lengths = np.array(A)
    used = {
        "native": np.full(C, TAU),
        "plain": TAU * lengths / lengths.mean(),
        "crossed": TAU * np.clip(lengths / A_ref, *refits.CLIP),
    }
    return np.stack(mu), np.array(kappa), used[tau]


def right(x: np.ndarray, y: np.ndarray, state: tuple[np.ndarray, np.ndarray, np.ndarray]):
    mu, kappa, tau = state
    return score(x @ mu.T, kappa, tau).argmax(1) == y


@pytest.mark.slow
@pytest.mark.parametrize("clip", [CLIP, (0.95, 1.1)])
def test_cross_fitted_by_fitting_again(
    space: FrozenSpace, clip: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refits, "CLIP", clip)
    result = cross_fitted(space, folds=4, seed=1)
    fold = stratified(space, 4, seed=1).numpy()
    x, y = rows(torch.as_tensor(space.train[:])), space.labels.numpy()
    A_ref = float(space.state.resultant.mean())
    hits = {name: np.zeros(len(y), bool) for name in ("native", "plain", "crossed")}
    for k in range(4):
        out = fold == k
        for name, hit in hits.items():
            hit[out] = right(x[out], y[out], fold_by_definition(x[~out], y[~out], name, A_ref))
    share = {name: 100 * hit.mean() for name, hit in hits.items()}
    assert result.rows == len(y) and result.folds == 4
    assert result.plain.mean == pytest.approx(share["plain"] - share["native"])
    assert result.crossed.mean == pytest.approx(share["crossed"] - share["native"])
    z, own = rows(torch.as_tensor(space.test[:])), space.test_labels.numpy()
    known = {
        name: 100 * right(z, own, fold_by_definition(x, y, name, A_ref)).mean()
        for name in ("native", "plain", "crossed")
    }
    assert result.held_out.mean == pytest.approx(known["plain"] - known["native"])
    assert result.corrected.mean == pytest.approx(known["crossed"] - known["native"])
    assert result.correction.mean == pytest.approx(known["crossed"] - known["plain"])
    whole = {
        name: 100 * right(x, y, fold_by_definition(x, y, name, A_ref)).mean()
        for name in ("native", "plain")
    }
    assert result.in_sample.mean == pytest.approx(whole["plain"] - whole["native"])
    clips = 0
    for k in range(4):
        used = fold_by_definition(x[fold != k], y[fold != k], "crossed", A_ref)[2] / TAU
        clips += int(((used <= clip[0]) | (used >= clip[1])).sum())
    assert result.clipped == clips > 0


def test_gain_spread_by_definition(space: FrozenSpace) -> None:
    tau = torch.linspace(0.08, 0.12, C, dtype=torch.float64)
    z, y = rows(torch.as_tensor(space.test[:])), space.test_labels.numpy()
    g = []
    for c in range(C):
        own = z[y == c]
        n, R = len(own), np.linalg.norm(own.mean(0))
        g.append(np.sqrt(max((n * R**2 - 1) / (n - 1), 0)) / float(tau[c]))
    result = gain_spread(space, tau)
    assert result.mean == pytest.approx(np.std(g) / np.mean(g), rel=1e-9)
    assert result.low is not None and result.high is not None
    assert result.low < result.mean < result.high


def test_a_class_of_one_row_is_refused() -> None:
    train, labels = torch.randn(9, 4), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])
    alone = FrozenSpace.fit(train, labels, train, labels)
    with pytest.raises(ValueError, match=r"expected two fitting rows .*, got 1 in class 2"):
        cross_fitted(alone)
    assert leave_out(alone).rows == 8


def of_kappas(
    steps: dict[str, float], imbalance: int = 100, seed: int = 0, name: str = "cifar100"
) -> dict[str, Any]:
    """Return a native network whose rules differ by given points under the MLE. With a network like
    the packaged one, the packaged features need no summary."""
    rules = dict.fromkeys(("native", "temperature", "preserve", "angular"), 0.6)
    other = {rule: v + steps.get(rule, 0.0) / 100 for rule, v in rules.items()}
    both = {"proco": {"accuracy": rules, "cosine": {}}, "mle": {"accuracy": other, "cosine": {}}}
    spaces = {"encoder": both, "projection": both}
    level = {space: {"accuracy": 0.5} for space in spaces}
    config, probes = controlled(name, imbalance), {"long_tail": level}
    return record(config, "native", 0.0, seed, analysis=spaces, probes=probes)


def test_the_mle_network_by_network() -> None:
    """The mean over imbalances, whatever networks they have."""
    steps = {100: (-0.1, -0.12, -0.14), 10: (0.3, 0.4)}
    records = [
        of_kappas({"native": step}, imbalance, seed, "cifar10")
        for imbalance, own in steps.items()
        for seed, step in enumerate(own)
    ]
    evidence = Evidence(Records([of_kappas({}), *records]))
    result = mle_changes(evidence, "native")["CIFAR-10 / 100", "encoder"]
    assert result == pytest.approx(list(steps[100]))
    result = over_datasets(mle_changes(evidence, "native"))["CIFAR-10 projection"]
    assert result.mean == pytest.approx((-0.12 + 0.35) / 2) and result.n == 5
    flat = over_datasets(mle_changes(evidence, "angular"))["CIFAR-10 projection"]
    assert flat.mean == 0 and flat.p is None


@pytest.mark.slow
def test_section() -> None:
    mle = controlled("cifar100", 100, estimator="mle")
    own = seeds(controlled("cifar100", 100), (0.1, 0.2, 0.4))
    records = [of_kappas({}), *own, *seeds(mle, (0.4, 0.6), 0.52)]
    evidence = OfSpaces(lambda estimator: small_space(estimator=estimator), records)
    artefact = ARTEFACTS["estimator"]
    outcome = artefact.compute(evidence)
    # Two of the three seeds that are planned.
    assert artefact.status(outcome) == "partly rerun (1 of 3)"
    assert outcome.notes[-2].startswith("Trained, MLE of kappa: not all seeds yet")
    changes = {(c.row, c.what): c for c in outcome.changes}
    ours = changes["native, encoder", "MLE of kappa - ProCo's"]
    assert ours.differences == pytest.approx((2.0, 2.0))
    ours = changes["MLE of kappa, projection", "Pure Angular - ProCo"]
    assert ours.differences == pytest.approx((0.4, 0.6))
    assert not any("left out" in what for _, what in changes)
    assert outcome.notes[-1].startswith("Trained, query left out: not run yet")
    cells = {(c.row, c.column): c for c in outcome.cells}
    native = cells["Projection: native", "MLE"]
    hits = decide(small_space(estimator="mle"), [Policy("native")]).right(Policy("native"))
    assert native.ours is not None
    assert native.ours.mean == pytest.approx(100 * float(hits.double().mean()))
    assert native.content().startswith(f"{native.ours.mean:.2f} %, NLL ")
    # All three questions are answered in short.
    kappa, statistics, trained = outcome.headline.split(". ")
    assert kappa.startswith("On frozen features another kappa than ProCo's changes the accuracy of")
    asked = small_space(estimator="proco")
    least = min(leave_out(asked).added_change.mean, cross_fitted(asked).correction.mean)
    assert f"adds to native by {least:+.2f}" in statistics and " of 4 differences" in statistics
    assert trained.startswith("Training with the MLE of kappa or the query left out changes probes")
    whole = Evidence(Records([*records, *seeds(mle, (0.4, 0.6, 0.5), 0.52)]))
    assert complete(whole, mle) and not complete(evidence, mle)
