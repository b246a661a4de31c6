"""The printed values, the records behind ours, and what is said of both."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from resultant.paper import (
    ARTEFACTS,
    Evidence,
    Records,
    backbones,
    controls,
    frozen_tables,
    historical,
    settings,
    training,
)
from resultant.paper.artefact import Change, Value, judged, printed, rows, said_p
from resultant.paper.claims import alike, within
from resultant.paper.evidence import trained_as
from resultant.paper.plan import PLANS, REALIZATIONS, controlled, official, wanted
from resultant.paper.records import append, identity, read_lines
from resultant.paper.training_claims import training_claims

# The source of the paper, if it is at hand.
SOURCE = os.environ.get("RESULTANT_PAPER", "")

PRINTED = {
    "tab:angular-training": training.TRAINING,
    "tab:joint-fc": training.JOINT,
    "tab:frozen-vmf": frozen_tables.VMF,
    "tab:frozen-vmf-realizations": frozen_tables.REALIZED,
    "tab:cosine-diagnostics": frozen_tables.DIAGNOSTICS,
    "tab:cosine-gradients": frozen_tables.GRADIENTS,
    "tab:cross-backbone": backbones.CHANGES,
    "tab:historical-power-temperature": historical.HEADS,
    **{f"tab:{name}": text for name, text in controls.TABLES.items()},
}

needs_source = pytest.mark.skipif(not SOURCE, reason="RESULTANT_PAPER names no file")


def tex_rows(label: str) -> list[list[str]]:
    """The body of a table of the paper, cell by cell, without its typesetting."""
    text = Path(SOURCE).read_text()
    body = text[text.index(f"\\label{{{label}}}") :]
    body = body[body.index("\\midrule") + len("\\midrule") : body.index("\\bottomrule")]
    found: list[list[str]] = []
    for line in body.split("\\\\"):
        line = re.sub(r"\\cellcolor\{[^}]*\}", "", line).replace("\\pm", "±").replace("$", "")
        cells = [" ".join(cell.split()) for cell in line.split("&")]
        if cells != [""]:
            found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


@needs_source
@pytest.mark.parametrize("label", PRINTED)
def test_printed_tables(label: str) -> None:
    assert rows(PRINTED[label]) == tex_rows(label)


@needs_source
def test_printed_settings() -> None:
    known = {row[0]: row[1:] for row in tex_rows("tab:training-hyperparameters")}
    for name, *values in rows(settings.TRAINING):
        match = [cells for title, cells in known.items() if title.startswith(name.split(",")[0])]
        assert len(match) == 1, name
        for value, cell in zip(values, match[0], strict=True):
            words = {"two": "2", "one weak + two strong": "3", "0 / 1": "1"}
            text = re.sub(r"(\d)\\times10\^\{-(\d)\}", r"\1e-\2", words.get(cell, cell))
            assert float(value) == float(text), name


@needs_source
def test_numbers_of_the_claims_are_in_the_paper() -> None:
    text = Path(SOURCE).read_text()
    numbers = (
        "98.43--99.99",
        *("0.011627", "0.029000", "0.11986", "0.00272", "0.00419", "98.63", "99.92"),
        *("97.57", "99.83", "-0.170", "+0.110", "0.75/0.14", "0.74/0.23", "1.45--1.62"),
        *("0.12--0.15", "0.99995", "+2.57", "+0.195", "+2.297", "-5.35", "-1.665"),
        *("63.072", "49.169", "65.422", "49.226", "7.165/2.297", "0.0521/0.0097"),
        *("2.2452", "72.3403", "2.1502", "2.1503", "-11.47/-14.51", "-15.98/-18.31"),
        *("0.630,\\; 0.349,\\; 0.948", "0.630,\\; 0.684,\\; 0.648", "23.56/37.76", "58.026"),
        *("4.87\\%,\\; 5.34\\%,\\; 4.57\\%", "8.82\\%-10.18\\%"),
    )
    assert [n for n in numbers if n not in text] == []


def test_cells_of_the_paper() -> None:
    found = printed("86.28 ± 0.09")
    assert found is not None and found.value[:2] == (86.28, 0.09) and found.digits == 2
    found = printed("9,763 / 10,000")
    assert found is not None and found.value.mean == 9763 and found.digits == 0
    found = printed("-0.02")
    assert found is not None and found.signed and found.value.mean == -0.02
    assert printed("--") is None


def test_value() -> None:
    assert Value.of([]) is None
    assert Value.of([3.0]) == (3.0, None, 1)
    assert Value.of([1.0, 2.0, 4.0]) == (7 / 3, statistics.stdev([1, 2, 4]), 3)


def test_change_is_a_paired_t_test() -> None:
    differences = (0.3, 0.5, 0.4, 0.6)
    change = Change("", "", 0.5, differences)
    t = statistics.fmean(differences) / (statistics.stdev(differences) / 2)
    # The tail of Student's t with three degrees of freedom.
    u = t / math.sqrt(3)
    tail = 0.5 - (u / (1 + u * u) + math.atan(u)) / math.pi
    assert change.p_value == pytest.approx(2 * tail, rel=1e-9)
    assert change.verdict == "holds"
    assert Change("", "", -0.5, differences).verdict == "does not hold: the other sign"
    assert Change("", "", 0.5, (0.5, -0.4, 0.1)).verdict == "same sign, not significant"
    assert Change("", "", 0.5, (0.5,)).verdict == "same sign, one seed: not tested"
    assert Change("", "", 0.5).verdict == "no record"
    # A change that the paper does not have, and one that it prints as none.
    assert Change("", "", None, differences).verdict == "significant"
    assert Change("", "", None, (0.5, -0.4, 0.1)).verdict == "not significant"
    assert Change("", "", 0.0, differences).verdict == "none printed, ours significant"
    # Differences that are equal but for rounding say nothing of their spread.
    alike = tuple(100 * (a - b) for a, b in ((0.4148, 0.4147), (0.4132, 0.4131), (0.4267, 0.4266)))
    assert len(set(alike)) > 1
    assert Change("", "", 0.5, alike).verdict == "same sign, 3 equal differences: not tested"
    assert Change("", "", 0.5, (0.0, 0.0)).verdict.startswith("no change, 2 equal")
    assert [said_p(p) for p in (None, 0.0004, 0.0006)] == ["–", "< 0.001", "0.001"]


def test_rules() -> None:
    assert within([1.0, 2.0], 1.0, 2.0) == (True, "in the printed range widened by half its width")
    assert within([0.5, 2.5], 1.0, 2.0)[0] and not within([0.49], 1.0, 2.0)[0]
    assert alike(1.0, 2.0) and not alike(0.99, 2.0) and not alike(-2.0, 2.0)
    verdicts = [judged("", "", "", "", h, "", tested=1, of=2).verdict for h in (True, False, None)]
    assert verdicts == ["holds where tested", "does not hold", "not settled"]


def record(config: Any, realization: str, beta: float, seed: int, **more: Any) -> dict[str, Any]:
    from dataclasses import asdict

    made = {"realization": realization, "beta": beta, "seed": seed, "config": asdict(config)}
    return json.loads(json.dumps(made | more))


def test_records_are_found_by_what_was_trained() -> None:
    config = controlled("cifar10", 100)
    old = record(config, "native", 0.0, 1, last={"accuracy": 0.5})
    for name in ("clip", "fuse", "leave_out"):
        del old["config"][name]
    short = record(controlled("cifar10", 100, epochs=3), "native", 0.0, 2)
    records = Records([old, short, record(config, "angular", 0.5, 1)])
    assert list(records.seeds(config)) == [1]
    assert records.values(config, "native", 1.0, "last.accuracy") == {1: 50.0}
    assert records.values(config, "native", 1.0, "last.loss") == {}
    # Native knows neither a strength nor a family, the others do.
    power = controlled("cifar10", 100, family="power")
    assert identity(config, "native", 0.0) == identity(power, "native", 1.0)
    assert identity(config, "temperature", 0.0) != identity(power, "temperature", 0.0)
    assert not records.seeds(config, "angular", 0.0) and records.seeds(config, "angular", 0.5)
    for other in (controlled("cifar10", 50), controlled("cifar10", 100, prior=0.0)):
        assert not records.seeds(other)


def test_the_fuller_record_counts() -> None:
    config = controlled("cifar10", 100)
    full = record(config, "native", 0.0, 0, analysis={}, plan="main")
    bare = record(config, "native", 0.0, 0, probes={"long_tail": {}, "balanced": {}})
    for both in ([full, bare], [bare, full]):
        records = Records(both)
        assert records.seeds(config)[0]["plan"] == "main" and records.set_aside == [bare]
    twice = Records([bare, {**bare, "plan": "again"}])
    assert twice.seeds(config)[0]["plan"] == "again" and twice.set_aside == [bare]


def test_append_replaces_and_refuses(tmp_path: Path) -> None:
    config, path = controlled("cifar10", 100), tmp_path / "main.jsonl"
    append(path, [record(config, "native", 0.0, seed, loss=1.0) for seed in (0, 1)])
    append(path, [record(config, "native", 0.0, 1, loss=2.0)])
    assert [r["loss"] for r in read_lines(path)] == [1.0, 2.0]
    assert os.listdir(tmp_path) == ["main.jsonl"]
    path.write_text(path.read_text() + '{"run": 1}\n')
    with pytest.raises(ValueError, match=r"expected a record at .*main.jsonl:3, got"):
        Records.read(tmp_path)


def main_records(change: dict[str, float]) -> Records:
    """Three seeds of the main plan: what angular adds in a setting, and a little noise."""
    found = []
    for job in PLANS["main"].jobs():
        for run in job.runs:
            step = change.get(job.name, 0.5) if run.realization == "angular" else 0.0
            value = 0.6 + 0.01 * run.seed + (step + 0.02 * run.seed * (step != 0)) / 100
            spaces = {"encoder": {"accuracy": value}, "projection": {"accuracy": value + 0.1}}
            found.append(record(job.config, *(run.realization, run.beta, run.seed)))
            found[-1]["probes"] = {"long_tail": spaces}
    return Records(found)


def test_main_table_and_its_claims() -> None:
    evidence = Evidence(main_records({}))
    outcome = training.angular_training(evidence)
    cells = {(c.row, c.column): c for c in outcome.cells}
    ours = cells["CIFAR-100 / 50, Projection", "ProCo"].ours
    assert ours is not None and ours.n == 3
    assert (ours.mean, ours.sd) == (pytest.approx(71.0), pytest.approx(1.0))
    assert cells["CIFAR-100 / 50, Projection", "ProCo"].said() == "37.40 ± 0.08 / 71.00 ± 1.00 [3]"
    assert cells["ImageNet-LT, Encoder", "ProCo"].said() == "23.05 ± 0.12 / not shipped"
    delta = cells["CIFAR-10 / 10, Encoder", "Δ"]
    assert delta.ours is not None and delta.ours.mean == pytest.approx(0.52)
    assert delta.difference == pytest.approx(0.52 - 0.65)
    assert outcome.done == (60, 70) and outcome.foreign == 10
    status = ARTEFACTS["angular-training"].status(outcome)
    assert status == "partly rerun (60 of 70; 10 need data we may not ship)"
    assert [c.verdict for c in training.of_cifar(outcome)] == ["holds"] * 12
    ten, hundred, pooled, warm, kept, *_ = training_claims(evidence)
    assert [c.verdict for c in (ten, hundred, pooled)] == ["holds"] * 3
    assert "n = 18" in pooled.ours and "n = 3, sd up to 0.02" in ten.ours
    assert (warm.verdict, kept.verdict) == ("not settled", "not settled")
    assert warm.paper == "-0.51 to +1.17, 7 of 12 positive"
    against = list(training_claims(Evidence(main_records({"cifar100-if50": -0.5}))))
    assert [c.verdict for c in against[:2]] == ["holds", "does not hold"]


def test_stronger_views() -> None:
    """Paired changes within a kind of views and between them, and what is said of both."""
    plain = controlled("cifar10", 100)
    job = next(job for job in PLANS["beyond"].jobs() if job.name == "views")
    assert job.config == controlled("cifar10", 100, contrastive_view="autoaugment")
    assert [(r.realization, r.seed) for r in job.runs] == [
        (name, seed) for seed in range(3) for name in ("native", "angular")
    ]
    found = []
    for config, level in ((plain, 0.68), (job.config, 0.72)):
        for run in job.runs:
            more = (0.003 + 0.001 * run.seed) * (run.realization == "angular") + 0.01 * run.seed
            spaces = {"encoder": {"accuracy": level + more}, "projection": {"accuracy": 0.7}}
            found.append(record(config, run.realization, run.beta, run.seed))
            found[-1]["probes"] = {"long_tail": spaces}
    artefact = ARTEFACTS["stronger-views"]
    outcome = artefact.compute(Evidence(Records(found)))
    changes = {(c.row, c.what): c for c in outcome.changes}
    ours = changes["AutoAugment views, encoder", "Pure Angular - ProCo"]
    assert ours.differences == pytest.approx((0.3, 0.4, 0.5)) and ours.verdict == "significant"
    between = changes["ProCo, encoder", "AutoAugment - SimCLR"]
    assert between.differences == pytest.approx((4.0,) * 3)
    assert "Pure Angular on AutoAugment views 73.40 ± 1.10 [3]" in outcome.notes[0]
    assert artefact.status(outcome) == "rerun"
    less = artefact.compute(Evidence(Records(found[:6])))
    assert artefact.status(less) == "not run yet" and len(less.changes) == 2
    assert artefact.compute(Evidence(Records())).notes == []


def test_other_realizations_are_tested() -> None:
    """Direct temperature that is worse in one readout bears the paper out, better in all does
    not."""
    records = []
    for job in PLANS["main"].jobs():
        for run in job.runs:
            step = 0.5 + 0.02 * run.seed if run.realization == "temperature" else 0.0
            records.append(record(job.config, run.realization, run.beta, run.seed))
            spaces = {"encoder": {"accuracy": 0.6 + step / 100}, "projection": {"accuracy": 0.7}}
            records[-1]["probes"] = {"long_tail": spaces}

    def claim() -> Any:
        found = {c.text: c for c in training_claims(Evidence(Records(records)))}
        return next(c for text, c in found.items() if text.startswith("Direct temperature"))

    assert claim().verdict == "not settled" and "6 up and 0 down" in claim().ours
    for r in records:
        r["probes"]["long_tail"]["projection"] = r["probes"]["long_tail"]["encoder"]
    assert claim().verdict == "does not hold" and "12 up" in claim().ours
    for r in records:
        if r["config"]["dataset"] == "cifar10" and r["realization"] == "native":
            r["probes"]["long_tail"]["encoder"] = {"accuracy": 0.7}
    assert claim().verdict == "holds"
    changes = training.angular_training(Evidence(Records(records))).changes
    known = {(c.row, c.what): c for c in changes}
    found = known["CIFAR-100 / 50, Encoder", "Direct temperature - ProCo"]
    assert found.paper == pytest.approx(39.14 - 37.97) and found.verdict == "holds"


def test_signs_need_more_than_a_seed() -> None:
    """Six joint trainings of one seed may bear signs out, the readouts of one network may not."""
    printed = [float(texts[-1]) for _, *texts in rows(training.JOINT)[:6]]
    found = []
    for (name, *_), step in zip(rows(training.JOINT), printed, strict=False):
        config = trained_as(name, objective="joint")
        for r, value in (("native", 0.6), ("angular", 0.6 + step / 100)):
            found.append(record(config, r, 0.0, 0, last={"accuracy": value}))
            spaces = {space: {"accuracy": value} for space in ("encoder", "projection")}
            found[-1]["probes"] = {"balanced": spaces}

    def verdicts(records: list[dict[str, Any]]) -> dict[str, str]:
        claims = training_claims(Evidence(Records(records)))
        return {c.text.split(":")[0]: c.verdict for c in claims if "oint" in c.text}

    assert verdicts(found)["Joint classifiers"] == "holds"
    assert verdicts(found[:8])["Joint classifiers"] == "not settled"
    assert verdicts(found)["CIFAR-10 joint, frequency prior, IF100"] == "not settled"


def test_fewer_and_more_seeds_than_planned() -> None:
    config, path = controlled("cifar10", 100), "CIFAR-10 / 100, Encoder"

    def cell(seeds: int) -> Any:
        made = [record(config, "native", 0.0, seed) for seed in range(seeds)]
        for r in made:
            value = {"accuracy": 0.6 + 0.01 * r["seed"]}
            r["probes"] = {"long_tail": {"encoder": value, "projection": value}}
        outcome = training.angular_training(Evidence(Records(made)))
        found = {(c.row, c.column): c for c in outcome.cells}
        return ARTEFACTS["angular-training"].status(outcome), found[path, "ProCo"]

    status, two = cell(2)
    assert two.begun and two.said() == "68.24 ± 0.16 / 60.50 ± 0.71 [2 of 3]"
    assert status.startswith("partly rerun (2 of 70, 2 with fewer seeds than planned; 10 need")
    assert cell(1)[1].said() == "68.24 ± 0.16 / 60.00 [1 of 3]"
    status, six = cell(6)
    assert not six.begun and six.said() == "68.24 ± 0.16 / 62.50 ± 1.87 [6]"
    assert status.startswith("partly rerun (2 of 70; 10 need")
    # Power has seed 0 of ProCo's public recipe, official the others.
    assert wanted(official("cifar10", 100)) == wanted(official("cifar10", 100, family="power")) == 3
    assert wanted(config, "angular") == 3 and not wanted(controlled("cifar10", 30))


def test_maps_pair_seeds() -> None:
    """A policy of one seed is compared with the native run of that seed, not with all of them."""
    config = controls.control_config("c10-if100-f", "contrastive")
    values = [("native", 0.0, 0, 0.80), ("native", 0.0, 1, 0.90), ("angular", 0.5, 0, 0.81)]
    made = []
    for name, beta, seed, value in values:
        spaces = {space: {"accuracy": value} for space in ("encoder", "projection")}
        made.append(record(config, name, beta, seed, probes={"balanced": spaces}))
    evidence = Evidence(Records(made))
    changes = controls.control_changes("c10-if100-f", evidence)
    known = {(c.row, c.what): c for c in changes}
    assert known["Pure Angular 0.5", "contrastive E"].differences == pytest.approx((1.0,))
    parts = ARTEFACTS["c10-pure-complete"].compute(evidence).parts
    assert len(parts) == 84
    assert [name for name, known in parts.items() if known] == [
        "IF100-F E, Pure Angular 0.5",
        "IF100-F P, Pure Angular 0.5",
    ]


def test_without_records_nothing_is_claimed() -> None:
    evidence = Evidence(Records())
    outcome = training.joint_fc(evidence)
    assert outcome.done == (0, 34)
    assert ARTEFACTS["joint-fc"].status(outcome) == "not run yet"
    verdicts = {claim.verdict for claim in training_claims(evidence)}
    assert verdicts == {"not run yet", "cannot be tested here"}
    assert {c.said().split(" / ")[1] for c in outcome.cells if c.paper} == {
        "no record",
        "not shipped",
    }


def test_catalogue() -> None:
    wanted = """angular-training frozen-vmf frozen-vmf-realizations cosine-diagnostics
    cosine-gradients cross-backbone historical-power-temperature c10-if1-u c10-if10-u c10-if10-f
    c10-if50-u c10-if50-f c10-if100-u c10-if100-f joint-fc training-hyperparameters
    frozen-hyperparameters gain-discovery joint-validation main-boundaries realization factor-app
    synthetic-transition prior-control-app softmax-coupling finite-sample real-scope-app
    real-margin-app gain-prior training-gain common-readouts c10-pure-complete
    c10-joint-uniform-complete c10-joint-actual-complete c10-trajectory
    baseline official-recipe beta-sweep stronger-views estimator guide"""
    assert set(ARTEFACTS) == set(wanted.split())
    for artefact in ARTEFACTS.values():
        assert artefact.label.partition(":")[2] == artefact.name
        assert set(artefact.plans) <= set(PLANS)
        assert bool(artefact.foreign) == bool(artefact.commands)


@pytest.mark.parametrize("name", ["training-hyperparameters", "frozen-hyperparameters"])
def test_presets_are_as_printed(name: str) -> None:
    cells = ARTEFACTS[name].compute(Evidence(Records())).cells
    assert cells and all(cell.difference == 0 for cell in cells)


def test_every_trained_cell_is_planned() -> None:
    planned = {
        identity(job.config, run.realization, run.beta)
        for plan in PLANS.values()
        for job in plan.jobs()
        for run in job.runs
    }
    asked = [
        (controls.control_config(name, objective), controls.REALIZATION[title], float(beta))
        for name, text in controls.TABLES.items()
        for title, beta, *_ in rows(text)
        for objective in ("contrastive", "joint")
    ]
    for dataset in ("cifar10", "cifar100"):
        for imbalance in (10, 50, 100):
            for objective in ("contrastive", "joint"):
                config = controlled(dataset, imbalance, objective=objective)
                asked += [(config, realization, 0.0) for realization in REALIZATIONS]
    assert all(identity(*kind) in planned for kind in asked)
    assert identity(controlled("cifar10", 30), "native", 0.0) not in planned


def test_stores_have_names() -> None:
    with pytest.raises(ValueError, match=r"expected stores named imagenet-lt.*, got places"):
        Evidence(Records(), {"places": Path("x")})
