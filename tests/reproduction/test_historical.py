"""The power family: fig:training-gain, fig:common-readouts, and claims about both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from resultant_reproduction import ARTEFACTS, Evidence, Records
from resultant_reproduction.historical import POLICIES, increment_errors, increment_plane
from resultant_reproduction.plan import official
from resultant_reproduction.spec import Outcome
from training_records import record

CONFIG = official("cifar100", 100, family="power")
PROCO, REDUCED, INCREASED = (f"CIFAR-100 / 100, {policy}" for policy in POLICIES)
PLANE = {
    "share": 0.99,
    "reduced": {"exact": [-1.0, 0.1], "leading": [-1.1, 0.0]},
    "increased": {"exact": [2.0, 0.2], "leading": [2.2, 0.1]},
}
KINDS = (("exact", 1), ("leading", 4))
ENDS = {"applied_gain_sd": 0.4, "gain_sd": 0.3, "gradient_error": 6.0}


def trained(
    policy: str,
    seed: int = 0,
    *,
    epochs: bool = True,
    more: float = 0.0,
    mean: float | None = None,
    **others: Any,
) -> dict[str, Any]:
    """A record with or without increments over epochs, ``more`` than those of others, and where
    there is a ``mean`` over queries with errors of so much."""
    trajectory: dict[str, Any] = {"epoch": [1, 100, 200], "gain_sd": [0.1, 0.2, 0.3]}
    trajectory["applied_gain_sd"] = [v + more for v in (0.2, 0.3, 0.4)]
    trajectory["gradient_error"] = [4.0, 5.0, 6.0]
    if epochs:
        errors = [{"reduced": e + more, "increased": e + more + 1} for e in (7.0, 8.0)]
        trajectory["increment_error"] = [None, *errors]
        trajectory["increment_plane"] = [None, PLANE, {**PLANE, "share": 0.98}]
    ends = dict(ENDS)
    if mean is not None:
        trajectory["mean_increment_error"] = [None, *[{"reduced": mean, "increased": mean}] * 2]
        ends["mean_gradient_error"] = mean
    records = {"last": ends, "trajectory": trajectory} | others
    return record(CONFIG, *POLICIES[policy], seed, **records)


def every(*seeds: int, **others: Any) -> list[dict[str, Any]]:
    return [trained(policy, seed, **others) for seed in seeds for policy in POLICIES]


def test_increments_over_epochs() -> None:
    full, none = (trained("ProCo", epochs=epochs) for epochs in (True, False))
    other = trained("ProCo", 2, more=0.5)
    result = increment_errors({0: full, 1: none, 2: other})
    assert result["reduced"] == ({100: [7.0, 7.5], 200: [8.0, 8.5]}, (0, 2))
    assert result["increased"].values[200] == [9.0, 9.5] and result["increased"].at(1) is None
    assert increment_errors({0: none}) == {} == increment_errors({0: {}})
    assert increment_plane({1: none, 2: full}) == (2, 200, {**PLANE, "share": 0.98})
    assert increment_plane({0: none}) is None is increment_plane({0: {}})


def drawn(records: list[dict[str, Any]]) -> tuple[str, list[list[Any]], list[str]]:
    """The status of fig:training-gain, the lines of each panel, and the words in them."""
    import matplotlib.pyplot as plt

    artefact = ARTEFACTS["training-gain"]
    outcome = artefact.compute(Evidence(Records(records)))
    if outcome.draw is None:
        return artefact.status(outcome), [], []
    figure = outcome.draw()
    lines = [list(ax.lines) for ax in figure.axes]
    sentence = [ax.get_title(loc="left")[4:] for ax in figure.axes]
    sentence += [figure.axes[2].get_xlabel(), *outcome.notes]
    plt.close(figure)
    return artefact.status(outcome), lines, sentence


def test_training_gain_is_drawn() -> None:
    status, lines, text = drawn(every(0, 1, 2, mean=9.0))
    assert status == "rerun" and "no record" not in text
    # Applied and native dispersion of three states, and twice the printed numbers of the last epoch
    # after an entry of the legend; three states, two interventions of each and the printed range;
    # twice an entry and two increments of the first.
    assert list(map(len, lines)) == [6 + 8, 3 + 6 + 1, 6]
    assert [line.get_ydata()[0] for line in lines[0][7:10]] == [0.630, 0.684, 0.648]
    assert [line.get_ydata()[0] for line in lines[0][11:]] == [0.630, 0.349, 0.948]
    assert lines[1].pop().get_xydata().tolist() == [[200, 8.82], [200, 10.18]]
    assert {line.get_linestyle() for line in lines[1]} == {"-", "--", ":"}
    reduced, increased = lines[1][3:5]
    assert reduced.get_xydata().tolist() == [[100, 7], [200, 8]]
    assert increased.get_xydata().tolist() == [[100, 8], [200, 9]]
    assert reduced.get_color() != increased.get_color()
    ends = {kind: [v.get_xydata()[-1].tolist() for v in lines[2][i : i + 2]] for kind, i in KINDS}
    assert ends == {kind: [PLANE[name][kind] for name in ("reduced", "increased")] for kind in ends}
    assert [line.get_linestyle() for line in lines[2]] == ["-"] * 3 + ["--"] * 3
    seeds, plane = text[-2:]
    assert text[-3] == "first axis; ProCo, seed 0, epoch 200" and "Lines: seeds 0, 1, 2;" in seeds
    assert plane.startswith("(c) One network, ProCo of seed 0 at epoch 200: 98.00 % of")


def test_training_gain_without_increments() -> None:
    """An empty panel says that it is empty."""
    status, lines, text = drawn(every(0, 1, 2, epochs=False))
    assert status == "partly rerun (12 of 19)" and list(map(len, lines)) == [6 + 8, 1, 0]
    assert text.count("no record") == 2 and drawn([])[0] == "not run yet"


def readouts(reduced: Sequence[float]) -> list[dict[str, Any]]:
    """Return long-tail probes of the encoder, one per seed: ProCo, and networks at given
    differences (points)."""
    records = []
    for seed, step in enumerate(reduced):
        for policy, value in (("ProCo", 0.5), ("Reduced gain disparity", 0.5 + step / 100)):
            own = {"long_tail": {"encoder": {"accuracy": value + 0.01 * seed}}}
            records.append(record(CONFIG, *POLICIES[policy], seed, probes=own))
    return records


def test_common_readouts_are_tested() -> None:
    artefact = ARTEFACTS["common-readouts"]

    def result(*steps: float) -> Outcome:
        return artefact.compute(Evidence(Records(readouts(steps))))

    outcome = result(1.0, 1.1)
    assert artefact.status(outcome) == "partly rerun (1 of 8, 2 with fewer seeds than planned)"
    cells = {(c.row, c.column): c for c in outcome.cells}
    assert len(cells) == 4 * 12
    assert cells[PROCO, "long-tail encoder"].content() == "50.50 ± 0.71 [2 of 3]"
    assert cells[INCREASED, "long-tail encoder"].content() == "no record"
    (change,) = outcome.changes
    assert (change.row, change.what) == ("long-tail encoder", "Reduced gain disparity - ProCo")
    assert change.differences == pytest.approx((1.0, 1.1)) and change.verdict == "–"
    # The only row that is drawn: the mean with Student's interval of two seeds.
    assert outcome.draw is not None
    reduced, increased = (ax.lines for ax in outcome.draw().axes)
    ends, mean = (line.get_xdata() for line in reduced[1:3])
    reach = np.tan(0.475 * np.pi) * 0.05
    assert mean == pytest.approx([1.05]) and ends == pytest.approx([1.05 - reach, 1.05 + reach])
    assert len(reduced) == 4 and len(increased) == 1
    assert artefact.status(result(1.0, 1.1, 1.2)) == "partly rerun (1 of 8)"
    nothing = result()
    assert artefact.status(nothing) == "not run yet" and nothing.draw is None
