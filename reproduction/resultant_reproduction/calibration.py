"""Beyond the paper: frozen rules with a fitted scale each, under other fits of the classes.

Group 5 of ``protocol.md``. Half of the held-out queries of each class fit the scales and the
held-out concentrations, the other half judges.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core import files
from resultant.analysis import FrozenSpace
from resultant.analysis.metrics import rank_correlation, rank_in_class
from resultant.classes.finite_sample import held_out_state
from resultant.classes.gain import angular_gain
from resultant.classes.realization import realize
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.classes.statistics import ClassState
from resultant.classifiers.calibration import expected_calibration_error, fit_scale, log_losses
from resultant.classifiers.em import AUTO, Components, fit_components
from resultant.features.packaged import PACKAGED
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import intervals
from resultant_reproduction.plan import STAND_IN
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.stats import over_queries, over_seeds
from resultant_reproduction.studies import LOSSES as OTHER_LOSSES
from resultant_reproduction.studies import PROCO, stored
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.templating import markdown_table
from resultant_reproduction.verdicts import Estimate

# Fits of the classes, in the order of the protocol.
FITS = {
    "proco": "ProCo's kappa",
    "mle": "maximum likelihood",
    "held-out": "held-out kappa",
    "components": "mixture per class",
}
DATASETS = {
    "cifar10": "CIFAR-10-LT",
    "cifar100": "CIFAR-100-LT",
    STAND_IN: "Tiny-ImageNet-LT (stand-in)",
}
BACKBONES = {"resnet50": "ResNet-50", "resnext50_32x4d": "ResNeXt-50"}
LOSSES = {"proco": PROCO, **OTHER_LOSSES}
EDIT, BEFORE = "angular", "native"
BINS = 15
# The gain story survives a fit with at least these shares of its spread and rank correlation.
LEAST_SPREAD, LEAST_CORRELATION = 0.5, 0.5


class Judged(NamedTuple):
    """A rule on the judging queries: right answers [n], cross-entropies [n] with and without the
    fitted scale, the scale and the calibration error."""

    right: Tensor
    scaled: Tensor
    raw: Tensor
    scale: float
    error: float


def halves(space: FrozenSpace) -> tuple[Tensor, Tensor]:
    """Rows of the fitting and of the judging queries: every second one of each class judges."""
    judging = rank_in_class(space.test_labels) % 2 == 1
    return (~judging).nonzero().squeeze(1), judging.nonzero().squeeze(1)


def _fitted(space: FrozenSpace, name: str, fitting: Tensor) -> ClassState | Components:
    if name == "components":
        weight = torch.ones(len(space.train), dtype=torch.float64)
        X = space.units("train", torch.arange(len(space.train)))
        return fit_components(X, space.labels, weight, space.num_classes, AUTO, space.estimator)
    if name == "held-out":
        z = space.units("test", fitting)
        return held_out_state(space.statistics, z, space.test_labels[fitting])
    return space.statistics.state(name)


def gains(fit: ClassState | Components, tau: float) -> Tensor:
    """Gains [C] of a fit; of a mixture the weighted means of its components."""
    return angular_gain(fit, tau) if isinstance(fit, ClassState) else fit.gain(tau)


def _scores(space: FrozenSpace, fit: ClassState | Components, rule: str, rows: Tensor) -> Tensor:
    state, offset = (fit, None) if isinstance(fit, ClassState) else (fit.state, fit.log_weight)
    scorer = realize(state.to(dtype=space.dtype), Rule(space.tau, rule, offset=offset))
    scores = torch.cat([scorer(x) for _, x, _ in space.queries(rows)])
    return scores if isinstance(fit, ClassState) else fit.of_classes(scores)


def judge(
    space: FrozenSpace, fit: ClassState | Components, rule: str, split: tuple[Tensor, Tensor]
) -> Judged:
    """Fit the scale of a rule at beta 0 on one half of the queries, and judge it on the other."""
    fitting, judging = split
    scale = fit_scale(_scores(space, fit, rule, fitting), space.test_labels[fitting])
    scores, labels = _scores(space, fit, rule, judging), space.test_labels[judging]
    return Judged(
        scores.argmax(-1) == labels,
        log_losses(scores, labels, scale),
        log_losses(scores, labels),
        scale,
        expected_calibration_error((scale * scores).softmax(-1), labels, BINS),
    )


@torch.no_grad()
def calibrate(space: FrozenSpace) -> dict[str, dict[str, Any]]:
    """Judge every fit and rule; return numbers in JSON types by name of the fit.

    ``rules`` has accuracy, cross-entropies, scale and calibration error by rule. ``points`` and
    ``nats`` are Pure Angular less native, [mean, low, high] over the judging queries: accuracy in
    percentage points, and cross-entropy with fitted scales. ``spread`` and ``correlation`` compare
    the gains with those of ProCo's kappa.
    """
    split = halves(space)
    usual = gains(_fitted(space, "proco", split[0]), space.tau)
    results = {}
    for name in FITS:
        fit = _fitted(space, name, split[0])
        rules = (BEFORE, EDIT) if name == "components" else REALIZATIONS
        if name != "components" and not gains(fit, space.tau).all():
            # A class without concentration has no temperature.
            rules = tuple(rule for rule in rules if rule not in TEMPERED)
        judged = {rule: judge(space, fit, rule, split) for rule in rules}
        own, after, before = gains(fit, space.tau), judged[EDIT], judged[BEFORE]
        results[name] = {
            "rules": {
                rule: {
                    "accuracy": float(j.right.double().mean()),
                    "nll": float(j.scaled.mean()),
                    "raw_nll": float(j.raw.mean()),
                    "scale": j.scale,
                    "error": j.error,
                }
                for rule, j in judged.items()
            },
            "points": [*over_queries(after.right, before.right, 100.0)[:3]],
            "nats": [*over_queries(after.scaled, before.scaled)[:3]],
            "spread": float(own.std() / own.mean()),
            "correlation": rank_correlation(own, usual),
            "queries": len(split[1]),
        }
    return results


Networks = Sequence[Mapping[str, Any]]


def places(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Numbers of `calibrate` by place: of the packaged network, and of records that have any."""
    packaged = stored("calibration.json")
    found: dict[str, list[Mapping[str, Any]]] = {
        f"CIFAR-100-LT, packaged, {space}": [own] for space, own in packaged.items()
    }
    own = [r for r in records if "calibration" in r]
    for record in sorted(own, key=lambda r: (r["config"]["dataset"], r["config"]["dim"])):
        # Without a contrastive part the projection is not trained.
        spaces = SPACES if record["config"].get("contrastive_weight", 1.0) else SPACES[:1]
        for space in spaces:
            found.setdefault(f"{title(record)}, {space}", []).append(record["calibration"][space])
    return found


def title(record: Mapping[str, Any]) -> str:
    """Name the kind of a network: data set, network unless a ResNet-32, loss, and dimension."""
    config = record["config"]
    alone = not config.get("contrastive_weight", 1.0)
    loss = LOSSES["cross-entropy" if alone else config.get("contrastive", "proco")]
    joint = config["objective"] == "joint" and not alone
    words = [DATASETS.get(config["dataset"], config["dataset"]), loss + ", joint" * joint]
    if config["architecture"] in BACKBONES:
        words.insert(1, BACKBONES[config["architecture"]])
    return f"{', '.join(words)}, p = {config['dim']}"


class Row(NamedTuple):
    """One fit of the classes at one place: the changes of accuracy (points) and of cross-entropy
    (nats), over queries for one network and over networks for several, and the spread of the gains
    with its rank correlation, and whether both survive."""

    place: str
    fit: str
    networks: int
    changes: dict[str, Estimate]
    spread: float
    correlation: float
    survives: bool

    @property
    def title(self) -> str:
        return f"{self.place}: {FITS[self.fit]} [{self.networks}]"

    @property
    def verdicts(self) -> tuple[str, str]:
        """Verdicts of accuracy and of cross-entropy, which improves where it falls."""
        words = {0: "open", 1: "still helps", -1: "harms"}
        accuracy, nll = (self.changes[key].sign or 0 for key in ("points", "nats"))
        return words[accuracy], words[-nll]

    def text(self, key: str) -> str:
        """Format a change with its interval."""
        return self.changes[key].text(2 if key == "points" else 4)

    def cells(self) -> list[Cell]:
        kept = "survives" if self.survives else "does not survive"
        accuracy, nll = self.verdicts
        texts = {
            "accuracy": self.text("points"),
            "cross-entropy": self.text("nats"),
            "edit, accuracy": accuracy,
            "edit, cross-entropy": nll,
            "spread of gains": f"{self.spread:.3f}, rank {self.correlation:+.2f}: {kept}",
            "evidence": f"n = {self.networks}",
        }
        return [Cell(self.title, column, None, text=text) for column, text in texts.items()]


def _combined(changes: Sequence[Sequence[float]]) -> Estimate:
    """Mean with its interval: over queries for one network, over networks for several."""
    if len(changes) == 1:
        mean, low, high = changes[0]
        return Estimate(mean, low, high)
    estimate = over_seeds([mean for mean, *_ in changes])
    assert estimate is not None
    return estimate


def rows_of(place: str, networks: Networks) -> list[Row]:
    """One row per fit, from the numbers of `calibrate` of some networks."""
    usual, rows = fmean(own["proco"]["spread"] for own in networks), []
    for name in FITS:
        fits = [own[name] for own in networks]
        spread = fmean(own["spread"] for own in fits)
        correlation = fmean(own["correlation"] or 0.0 for own in fits)
        changes = {key: _combined([own[key] for own in fits]) for key in ("points", "nats")}
        alive = spread >= LEAST_SPREAD * usual and correlation >= LEAST_CORRELATION
        rows.append(Row(place, name, len(fits), changes, spread, correlation, alive))
    return rows


def packaged_rows() -> list[Row]:
    """Rows of the packaged network."""
    return [row for place, own in places(()).items() for row in rows_of(place, own)]


def _rules(row: Row, fits: Networks) -> tuple[str, ...]:
    """Title and numbers of every rule."""
    texts = []
    for rule in REALIZATIONS:
        own = [fit["rules"][rule] for fit in fits if rule in fit["rules"]]
        keys = ("accuracy", "nll", "raw_nll", "error", "scale")
        a, n, raw, e, s = (fmean(v[key] for v in own) if own else 0.0 for key in keys)
        text = f"{100 * a:.2f} / {n:.3f} ({raw:.3f}) / {100 * e:.1f} / {s:.2f}"
        texts.append(text if own else "–")
    return (row.title, *texts)


def calibration(evidence: Evidence) -> Outcome:
    """Frozen rules with a fitted scale, under every fit of the classes."""
    rows, rules = [], []
    for place, networks in places(evidence.every).items():
        own = rows_of(place, networks)
        rows += own
        rules += [_rules(row, [fits[row.fit] for fits in networks]) for row in own]
    kept = sum(row.survives for row in rows)
    helped = [sum(row.verdicts[i] == "still helps" for row in rows) for i in (0, 1)]
    headline = (
        f"With a fitted scale per rule the edit still helps accuracy in {helped[0]} of {len(rows)} "
        f"rows and cross-entropy in {helped[1]}; the spread of gains survives in {kept}."
    )
    every = (
        "*Accuracy (%) / cross-entropy with the fitted scale (without) / calibration error (%) / "
        "scale.* A scale changes no decision.\n\n"
    )
    # Change of accuracy: one panel per fit, one row per place.
    drawn = {
        f"{fit}\npoints": {
            f"{row.place} [{row.networks}]": row.changes["points"][:3]
            for row in rows
            if row.fit == key
        }
        for key, fit in FITS.items()
    }
    single = [f"{row.place} [1]" for row in rows if row.networks == 1]
    return Outcome(
        [cell for row in rows for cell in row.cells()],
        headline=headline,
        sections={"Every rule": every + markdown_table(rules, ("", *REALIZATIONS))},
        draw=lambda: intervals(drawn, single),
    )


def main(path: Path) -> None:
    """Compute the numbers of the packaged network, two minutes on a CPU."""
    evidence = Evidence(Records())
    numbers = {space: calibrate(evidence.space(PACKAGED, space)) for space in SPACES}
    files.write_text(path, json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
