"""fig:realization: intercepts under matched interventions, and the state that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.classes.rule import EDITED
from resultant.training.config import TrainConfig
from resultant.training.records import Record
from resultant_reproduction.evaluate import Evaluation, conclude, statement
from resultant_reproduction.evidence import CONDITIONS, Evidence
from resultant_reproduction.formats import seed_list
from resultant_reproduction.plan import controlled, planned_seeds
from resultant_reproduction.records import dig, paired, probe_path
from resultant_reproduction.spec import Cell, Claim, Outcome, parse_cell
from resultant_reproduction.special_figures import draw_intercepts
from resultant_reproduction.stats import Interval, over_seeds
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.value import Value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Printed: cross-entropies, and scores of the collapsed class at cosine zero.
LOSSES = {"native": "2.2452", "temperature": "72.3403", "preserve": "2.1502", "angular": "2.1503"}
INTERCEPTS = {"native": "0.3888", "temperature": "79.1456"}
# Predictions collapsed if fewer than these of 100 classes are among them.
FEW = 10
PREDICTIONS = "predictions"


class Training(NamedTuple):
    """The least kappa of a class when a training ended, the rules at its last state
    (`summary.summarize_state`) where they were kept, its seed, and accuracies of
    long-tail probes by space."""

    kappa: float
    state: dict[str, Any] | None
    seed: int
    probes: Mapping[str, float]


class Trainings(NamedTuple):
    """Trainings on CIFAR-100 IF 10 under a uniform prior, by direct temperature and native. A seed
    that was trained twice counts twice: rounding is enough for a class to collapse or not."""

    edited: list[Training]
    native: list[Training]

    @staticmethod
    def of(evidence: Evidence) -> Trainings | None:
        """Return None until there are both kinds; records without a least kappa are left out."""
        edited, native = (
            [
                Training(kappa, record.get("ended"), record["seed"], _probes(record))
                for record in evidence.records.trainings(_config(), name)
                if (kappa := dig(record, "last.kappa_min")) is not None
            ]
            for name in ("temperature", "native")
        )
        return Trainings(edited, native) if edited and native else None

    def low(self, training: Training) -> bool:
        """Test whether the least kappa is below a tenth of the least kappa of native trainings."""
        return training.kappa < min(t.kappa for t in self.native) / 10

    def lost(self, training: Training) -> bool:
        """Test whether a class collapsed: its kappa is low, or direct temperature predicts fewer
        than `FEW` classes at the last state."""
        distinct = dig(training.state, "same_state.temperature.distinct")
        return self.low(training) or (distinct is not None and distinct < FEW)

    def ends(self) -> list[tuple[Training, dict[str, Any]]]:
        """Return the edited trainings that keep their last state, and the state: those that lost
        a class, or all if none did, in the order of kappa."""
        kept = [(training, training.state) for training in self.edited if training.state]
        lost = [end for end in kept if self.lost(end[0])]
        return sorted(lost or kept, key=lambda end: end[0].kappa)

    @property
    def awaited(self) -> int:
        """Number of trainings that lost a class, of seeds without any last state: a plan trains
        these seeds again."""
        kept = {training.seed for training in self.edited if training.state}
        return sum(self.lost(t) for t in self.edited if t.seed not in kept)

    def changes(self) -> dict[str, Interval]:
        """Return the changes of long-tail probes from native to direct temperature, by space
        (points), over the seeds that have both. A seed that was trained twice counts once, by its
        mean."""
        changes = {}
        for space in SPACES:
            after, before = (_by_seed(trainings, space) for trainings in self)
            changes[space] = over_seeds([*paired(after, before).values()])
        return {space: i for space, i in changes.items() if i is not None}

    @property
    def seeds(self) -> list[int]:
        """Seeds of the edited trainings, each once."""
        return sorted({training.seed for training in self.edited})


def _probes(record: Record) -> dict[str, float]:
    values = {space: dig(record, probe_path(space)) for space in SPACES}
    return {space: v for space, v in values.items() if v is not None}


def _by_seed(trainings: Sequence[Training], space: str) -> dict[int, float]:
    """Return mean accuracies of a space (%) by seed."""
    values: dict[int, list[float]] = {}
    for training in trainings:
        if space in training.probes:
            values.setdefault(training.seed, []).append(100 * training.probes[space])
    return {seed: fmean(own) for seed, own in values.items()}


def _config() -> TrainConfig:
    return controlled("cifar100", 10, prior=0.0)


def failing_claims(evidence: Evidence) -> Iterator[Claim]:
    """Claims about the numbers that the paper prints of the failing network."""
    trainings = Trainings.of(evidence)
    yield conclude(statement("failing-kappa"), trainings and _kappa(trainings), "failure")
    names = ("losses", PREDICTIONS, "intercepts", "accuracy", "target")
    if trainings is None or not (ends := trainings.ends()):
        for name in names:
            yield conclude(statement(f"failing-{name}"), None, "failure")
        return
    lost, failed = sum(map(trainings.lost, trainings.edited)), trainings.lost(ends[0][0])
    of, kept = len(ends) + trainings.awaited, f"{len(ends)} of {lost} that lost one"
    asked_of = f"the trainings that lost a class and kept their last state ({kept})"
    if not failed:
        # The paper's network lost a class: one that kept its classes says nothing about it.
        why = "none that lost one kept its last state" if lost else "none lost one"
        ends, of, asked_of = ends[:1], 1, f"one that kept its classes: {why}"
    outcomes = zip(*(_outcomes(state) for _, state in ends), strict=True)
    for name, own in zip(names, outcomes, strict=True):
        ours, holds, rule = _together([training for training, _ in ends], own, asked_of)
        networks = len(ends)
        if name == PREDICTIONS and failed:
            named = [_named(training) for training, _ in ends if not trainings.low(training)]
            networks -= len(named)
            rule += f"; by this count alone a class was lost at {'; '.join(named)}" if named else ""
        evaluation = Evaluation(
            *(ours, holds if failed else None, rule, len(ends), of), networks=networks
        )
        yield conclude(statement(f"failing-{name}"), evaluation, "failure")


def _kappa(trainings: Trainings) -> Evaluation:
    edited, native = map(_kappas, trainings)
    low = list(map(trainings.low, trainings.edited))
    alike = len(set(low)) == 1 and len(trainings.seeds) > 1
    return Evaluation(
        f"{edited} (native {native}); n = {len(low)} and {len(trainings.native)}",
        low[0] if alike else None,
        "below a tenth of native's in every training; in some of them, or trainings of one seed "
        "alone, leave it open",
        *(len(trainings.seeds), planned_seeds(_config(), "temperature")),
    )


def _kappas(trainings: Sequence[Training]) -> str:
    """Format the least kappa per training, seed by seed; if a seed was trained more than once, the
    records that were set aside come first."""
    by_seed: dict[int, list[str]] = {}
    for training in reversed(trainings):
        by_seed.setdefault(training.seed, []).append(f"{training.kappa:.2f}")
    return "; ".join(
        f"seed {seed}{f', {len(own)} trainings' if len(own) > 1 else ''}: {', '.join(own)}"
        for seed, own in sorted(by_seed.items())
    )


def _named(training: Training) -> str:
    return f"seed {training.seed}, kappa {training.kappa:.3g}"


def _together(
    trainings: Sequence[Training], outcomes: Sequence[tuple[str, bool, str]], asked_of: str
) -> tuple[str, bool | None, str]:
    """Combine the outcomes of several trainings: numbers, verdict and rule. The verdict is None if
    the rule is met by some of the trainings only."""
    rule = f"{outcomes[0][2]}; asked of {asked_of}"
    if len(trainings) == 1:
        ours, met, _ = outcomes[0]
        return f"{ours}; n = 1, seed {trainings[0].seed}", met, rule
    names = map(_named, trainings)
    named = [(name, *outcome[:2]) for name, outcome in zip(names, outcomes, strict=True)]
    text = "; ".join(f"{name}: {ours}" for name, ours, _ in named)
    against = [name for name, _, met in named if not met]
    some = 0 < len(against) < len(named)
    rule += f"; not met at {'; '.join(against)}" if some else ""
    return f"{text}; n = {len(named)}", None if some else not against, rule


def _outcomes(state: dict[str, Any]) -> tuple[tuple[str, bool, str], ...]:
    """Evaluate a last state by each rule: numbers, True if the rule is met, and the rule."""
    rows, focus = state["same_state"], state["focus"]
    losses = [rows[name]["cross_entropy"] for name in LOSSES]
    distinct = [rows[name]["distinct"] for name in EDITED]
    before, after = (focus["intercepts"][name] for name in INTERCEPTS)
    accuracy, target = 100 * rows["native"]["accuracy"], focus["target_gain"]
    return (
        (
            ", ".join(f"{v:.4f}" for v in losses),
            losses[1] >= 10 * losses[0] and max(losses[2:]) < 1.5 * losses[0],
            "temperature at least ten times native, the others no worse than 1.5 times",
        ),
        (
            ", ".join(map(str, distinct)),
            distinct[0] < FEW and min(distinct[1:]) > 50,
            f"fewer than {FEW} of 100 under temperature, most under the others",
        ),
        (
            f"{before:.4f}, {after:.4f}",
            after >= 10 * max(before, 1.0),
            "at least ten, and at least ten times native",
        ),
        (
            f"{accuracy:.1f}",
            abs(accuracy - 37.2) <= 5,
            "within five points: the standard error of 500 queries is two",
        ),
        (f"{target:.4f}", 0.8 <= target / 7.4057 <= 1.25, "within a quarter"),
    )


def realization(evidence: Evidence) -> Outcome:
    """Intercept drift of native networks and of the failing one; its cross-entropies."""
    states = [
        summary
        for condition in CONDITIONS
        for summary in evidence.frozen(condition, "projection").values()
        if "intercepts" in summary
    ]
    trainings = Trainings.of(evidence)
    ends = trainings.ends() if trainings else []
    training, last = ends[0] if ends else (None, None)
    failed = bool(trainings and training and trainings.lost(training))

    def draw() -> Figure:
        drifts = {name: [state["intercepts"][name] for state in states] for name in EDITED}
        shown = ends if failed else ends[:1]
        kept = "" if failed else ", kept its classes"
        named = {f"{_named(t).replace('kappa', 'least kappa')}{kept}": s for t, s in shown}
        return draw_intercepts(drifts, named, {name: float(v) for name, v in LOSSES.items()})

    parts = {"native states": bool(states)}
    notes = [
        f"Circles: {len(states)} native networks of the frozen tables, every seed; "
        f"{_star(trainings, training)}."
    ]
    return Outcome(
        _cells(ends if failed else ()),
        draw=draw if states or last else None,
        parts=parts,
        notes=notes,
    )


def _cells(failed: Sequence[tuple[Training, dict[str, Any]]]) -> list[Cell]:
    """Return the printed numbers of the failing state with ours, one column per training."""
    columns = {_named(training): state for training, state in failed} or {"failing state": None}
    cells = []
    for column, state in columns.items():
        for name, text in LOSSES.items():
            ours = Value(state["same_state"][name]["cross_entropy"]) if state else None
            cells.append(Cell(f"cross-entropy, {name}", column, parse_cell(text), ours))
        for name, text in INTERCEPTS.items():
            ours = Value(state["focus"]["intercepts"][name]) if state else None
            row = f"score of the collapsed class at cosine zero, {name}"
            cells.append(Cell(row, column, parse_cell(text), ours))
    return cells


def _star(trainings: Trainings | None, training: Training | None) -> str:
    """Describe the network of the star and of panel (b)."""
    if trainings is None or training is None or training.state is None:
        return "panel (b) has the printed numbers alone until the failing state is trained"
    lost, rows = list(map(trainings.lost, trainings.edited)), training.state["same_state"]
    losses = ", ".join(f"{name} {row['cross_entropy']:.2f}" for name, row in rows.items())
    kappas = f"least kappa {training.kappa:.3g}"
    if own := [t.kappa for t in trainings.native if t.seed == training.seed]:
        kappas += f", native of that seed {' and '.join(f'{kappa:.3g}' for kappa in own)}"
    states = len(trainings.ends())
    kappas += f", the least of {states} such states" if states > 1 else ""
    outcome = f"a class collapsed there ({kappas})"
    if not trainings.lost(training):
        outcome = f"it did not fail: every class was kept ({kappas})"
        outcome += ", and a network that lost one did not keep its state" if any(lost) else ""
    return (
        "star and panel (b): the last state of a network trained by direct temperature on "
        f"CIFAR-100 IF 10 under a uniform prior, seed {training.seed}; {outcome}; cross-entropy "
        f"{losses}; a class collapsed in {sum(lost)} of {len(lost)} such trainings, of "
        f"{seed_list(trainings.seeds)}"
    )
