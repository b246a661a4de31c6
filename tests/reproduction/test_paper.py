"""The printed values, what is said of them and of ours, and the artefacts that have them."""

from __future__ import annotations

import math
import os
import re
import statistics
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from paper_evidence import numbered
from resultant.training.records import identity
from resultant_reproduction import (
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
from resultant_reproduction.artefact import Cell, Change, Value, judged, printed, rows, said_p
from resultant_reproduction.plan import PLANS, RULES, controlled

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
    """Every row of both tables, in its order; of tab:frozen-hyperparameters piece by piece."""

    def plain(text: str) -> str:
        text = re.sub(r"(\d)\\times10\^\{-(\d)\}", r"\1e-\2", text)
        return f"{float(text):g}" if re.fullmatch(r"[\d.e-]+", text) else text

    known = tex_rows("tab:training-hyperparameters")
    given = rows(settings.TRAINING)
    for (title, *cells), (name, *values) in zip(known, given, strict=True):
        assert re.sub(r" \\[a-z]+(_0)?$", "", title) == name
        assert list(map(plain, cells)) == list(map(plain, values)), name
    words = dict(tex_rows("tab:frozen-hyperparameters"))
    pieces = rows(settings.FROZEN)
    assert list(dict.fromkeys(row for row, *_ in pieces)) == list(words)
    assert [piece for piece in pieces if piece[2] not in words[piece[0]]] == []
    text = " ".join(Path(SOURCE).read_text().split())
    assert "CIFAR uses the recorded cosine schedule. ImageNet retains its baseline" in text
    assert "The main CIFAR imbalance factors are $10,\\; 50,\\; 100$" in text


@needs_source
def test_numbers_of_the_claims_are_in_the_paper() -> None:
    text = Path(SOURCE).read_text()
    numbers = (
        "98.43--99.99",
        *("0.011627", "0.029000", "0.11986", "0.00272", "0.00419", "98.63", "99.92"),
        *("97.57", "99.83", "-0.170", "+0.110", "0.75/0.14", "0.74/0.23", "1.45--1.62"),
        *("0.12--0.15", "0.99995", "+2.57", "+0.195", "+2.297", "-5.35", "-1.665"),
        *("63.072", "49.169", "65.422", "49.226", "7.165/2.297", "0.0521/0.0097"),
        *("2.2452", "72.3403", "2.1502", "2.1503", "5.4415", "0.3888", "79.1456"),
        *("-11.47/-14.51", "-15.98/-18.31"),
        *("0.630,\\; 0.349,\\; 0.948", "0.630,\\; 0.684,\\; 0.648", "23.56/37.76", "58.026"),
        *("4.87\\%,\\; 5.34\\%,\\; 4.57\\%", "8.82\\%-10.18\\%"),
        *("99.46--99.95", "37.2\\%", "7.4057", "0.04244", "0.005730", "3.8058", "7.4032"),
        *("$+0.195$ and $+0.315$", "$-1.665$ and $-1.465$", "$+2.020$ and $+1.635$"),
        *("67.787/55.620/38.868", "remaining 7, 8, and 11", "$n=5$ to $n=100$"),
        *("$23.05\\pm0.12\\%$", "$36.86\\pm0.06\\%$", "$23.22\\pm0.19\\%$", "$37.07\\pm0.11\\%$"),
        *("$+0.17/+0.21$", "$+0.19$", "$+1.17$", "$+0.22$", "$+0.94$", "2.32\\times10^{-7}"),
        *("0.119^\\circ", "$+7.15$", "$+2.35$", "ordering changes across imbalance settings"),
        *("-0.999,-2.000,-2.999", "97.57\\%,\\; 99.83\\%,\\; 100\\%"),
    )
    assert [n for n in numbers if n not in text] == []


def test_cells_of_the_paper() -> None:
    found = printed("86.28 ± 0.09")
    assert found is not None and found.value[:2] == (86.28, 0.09) and found.digits == 2
    found = printed("9,763 / 10,000")
    assert found is not None and found.value.mean == 9763 and found.digits == 0
    cell = Cell("", "", found, Value(9773.25, 16.3, 3))
    assert cell.said() == "9,763 of 10,000 / 9,773.2 ± 16.3 [3]"
    found = printed("-0.02")
    assert found is not None and found.signed and found.value.mean == -0.02
    assert printed("--") is None


def test_value() -> None:
    assert Value.of([]) is None
    assert Value.of([3.0]) == (3.0, None, 1)
    assert Value.of([1.0, 2.0, 4.0]) == (7 / 3, statistics.stdev([1, 2, 4]), 3)
    # What is rounded to zero is not negative.
    assert [Value(-0.004).said(2, sign) for sign in (True, False)] == ["+0.00", "0.00"]
    assert Value(-0.006, 0.1, 2).said(2, sign=True) == "-0.01 ± 0.10"


def test_one_more_draw() -> None:
    """The t test of a sample of one against the others, which has their spread."""
    own = [99.0, 99.1, 99.25, 98.9]
    value, known = Value.of(own), ttest_ind(own, [98.5])
    assert value is not None
    assert value.drawn(98.5) == pytest.approx(known.pvalue)  # type: ignore[attr-defined]
    assert Value(1.0).drawn(2.0) is Value(1.0, 0.0, 3).drawn(2.0) is None
    # The sd of equal numbers but for rounding is not known.
    assert Value(0.3, 1e-17, 3).drawn(0.4) is None


def test_change_is_a_paired_t_test() -> None:
    differences = (0.3, 0.5, 0.4, 0.6)
    change = Change("", "", 0.5, numbered(differences))
    t = statistics.fmean(differences) / (statistics.stdev(differences) / 2)
    # The tail of Student's t with three degrees of freedom.
    u = t / math.sqrt(3)
    tail = 0.5 - (u / (1 + u * u) + math.atan(u)) / math.pi
    assert change.p_value == pytest.approx(2 * tail, rel=1e-9)
    assert change.verdict == "same sign, p < 0.05 alone"
    assert Change("", "", -0.5, numbered(differences)).verdict == "other sign, p < 0.05 alone"
    assert Change("", "", -0.5, numbered((0.5, -0.4, 0.1))).verdict == "other sign, not significant"
    assert Change("", "", 0.5, numbered((0.5, -0.4, 0.1))).verdict == "same sign, not significant"
    assert Change("", "", 0.5, numbered((0.5,))).verdict == "same sign, one seed: not tested"
    assert Change("", "", 0.5).verdict == "no record"
    # A change that the paper does not have, and one that it prints as none.
    assert Change("", "", None, numbered(differences)).verdict == "p < 0.05 alone"
    assert Change("", "", None, numbered((0.5, -0.4, 0.1))).verdict == "not significant"
    zero = [Change("", "", 0.0, numbered(d)).verdict for d in (differences, (0.5,), ())]
    ours = [f"printed as zero; ours {said}" for said in ("p < 0.05 alone", "not tested")]
    assert zero == [*ours, "no record"]
    assert Change("", "", None, numbered((0.5,))).verdict == "not tested"
    # Differences that are equal but for rounding say nothing of their spread.
    alike = tuple(100 * (a - b) for a, b in ((0.4148, 0.4147), (0.4132, 0.4131), (0.4267, 0.4266)))
    assert len(set(alike)) > 1
    assert (
        Change("", "", 0.5, numbered(alike)).verdict == "same sign, 3 equal differences: not tested"
    )
    assert Change("", "", -0.5, numbered((0.4, -0.408))).verdict == "zero, not significant"
    assert Change("", "", 0.5, numbered((0.0, 0.0))).verdict.startswith("zero, 2 equal")
    assert [said_p(p) for p in (None, 0.0004, 0.0006)] == ["–", "< 0.001", "0.001"]
    assert [said_p(p) for p in (0.0497, 0.0502, 0.0506)] == ["0.0497", "0.0502", "0.051"]


def test_verdicts() -> None:
    verdicts = [judged("", "", "", "", h, "", tested=1, of=2).verdict for h in (True, False, None)]
    assert verdicts == ["holds where tested", "does not hold", "not settled"]
    # More cases than planned do not lower it.
    more = judged("", "", "", "ours", True, "", tested=3, of=2)
    assert (more.verdict, more.ours) == ("holds", "ours")


def test_catalogue() -> None:
    wanted = """angular-training frozen-vmf frozen-vmf-realizations cosine-diagnostics
    cosine-gradients cross-backbone historical-power-temperature c10-if1-u c10-if10-u c10-if10-f
    c10-if50-u c10-if50-f c10-if100-u c10-if100-f joint-fc training-hyperparameters
    frozen-hyperparameters gain-discovery joint-validation main-boundaries realization factor-app
    synthetic-transition prior-control-app softmax-coupling finite-sample real-scope-app
    real-margin-app gain-prior training-gain common-readouts c10-pure-complete
    c10-joint-uniform-complete c10-joint-actual-complete c10-trajectory
    baseline joint-protocol official-recipe beta-sweep stronger-views estimator guide"""
    assert set(ARTEFACTS) == set(wanted.split())
    for artefact in ARTEFACTS.values():
        assert artefact.label.partition(":")[2] == artefact.name
        assert set(artefact.plans) <= set(PLANS)
        assert bool(artefact.foreign) == bool(artefact.commands)


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
                asked += [(config, realization, 0.0) for realization in RULES]
    assert all(identity(*kind) in planned for kind in asked)
    assert identity(controlled("cifar10", 30), "native", 0.0) not in planned


def test_stores_have_names() -> None:
    with pytest.raises(ValueError, match=r"expected stores named imagenet-lt.*, got places"):
        Evidence(Records(), {"places": Path("x")})
