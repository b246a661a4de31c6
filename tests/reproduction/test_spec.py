"""Printed values against the source of the paper, the types that hold them and ours; our settings
compared with the printed ones."""

import os
import re
import statistics
import tomllib
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from frozen_data import features
from resultant.features.store import write_store
from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell, printed_rows
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.pages import queries
from resultant_reproduction.recipes.records import identity
from resultant_reproduction.runs.plans import PLANS, RULES, controlled
from resultant_reproduction.studies import control_matrix as controls, settings

ROOT = Path(__file__).parents[2] / "reproduction"
# The source of the paper: a file named by the environment, or next to the checkout.
SOURCE = Path(os.environ.get("RESULTANT_PAPER", Path(__file__).parents[3] / "shared" / "paper.tex"))
needs_source = pytest.mark.skipif(not SOURCE.is_file(), reason=f"no paper at {SOURCE}")
# Tables whose cells are split or explained in the text.
SETTINGS = ("training-hyperparameters", "frozen-hyperparameters")


def tex_rows(name: str) -> list[list[str]]:
    """The body of a table of the paper, cell by cell, without its typesetting."""
    text = SOURCE.read_text()
    body = text[text.index(f"\\label{{tab:{name}}}") :]
    body = body[body.index("\\midrule") + len("\\midrule") : body.index("\\bottomrule")]
    rows: list[list[str]] = []
    for line in body.split("\\\\"):
        line = re.sub(r"\\cellcolor\{[^}]*\}", "", line).replace("\\pm", "±").replace("$", "")
        cells = [" ".join(cell.split()) for cell in line.split("&")]
        if cells != [""]:
            rows.append([cells[0] or rows[-1][0], *cells[1:]])
    return rows


@needs_source
@pytest.mark.parametrize("name", [n for n in load("printed/tables") if n not in SETTINGS])
def test_printed_tables(name: str) -> None:
    assert printed_rows(name) == tex_rows(name)
    columns = load("printed/tables")[name]["columns"]
    assert {len(row) for row in printed_rows(name)} == {len(columns)}


# Numbers of claims that the paper does not print, each from numbers that it prints.
DERIVED = tomllib.loads((Path(__file__).parent / "derived.toml").read_text())


@pytest.fixture(scope="module")
def source() -> str:
    """The source of the paper without spaces and typesetting."""
    return re.sub(r"[\\;$\s]", "", SOURCE.read_text())


@needs_source
@pytest.mark.parametrize("claim", load("pages/claims")["claim"], ids=lambda claim: claim["name"])
def test_numbers_of_claims_are_in_the_paper(claim: dict[str, Any], source: str) -> None:
    printed, derived = claim.get("printed", []), DERIVED.get(claim["name"], {})
    numbers = [f"{abs(n):.12g}" for n in (printed if isinstance(printed, list) else [printed])]
    numbers += re.findall(r"\d+\.\d+", claim.get("paper", ""))
    known = {*derived, *(number.rstrip("0") for number in derived)}
    missing = [n for n in numbers if n not in source and n.rstrip("0") not in source]
    assert set(missing) <= known
    for number, formula in derived.items():
        assert number.rstrip("0") in " ".join(numbers), number
        for operand in re.findall(r"\d+\.\d+|(?<= )1\d\d(?= |$)", formula):
            assert operand in source, operand
        digits = len(number.partition(".")[2])
        assert f"{eval(formula, {'__builtins__': {}}):.{digits}f}" == number
    for label in claim["labels"]:
        assert f"label{{{label}}}" in source


@needs_source
def test_numbers_of_the_text_are_in_the_paper(source: str) -> None:
    entries = [entry for rows in load("printed/in_text").values() for entry in rows]
    assert len(entries) == 12 and {claim["name"] for claim in load("pages/claims")["claim"]} >= {
        *DERIVED
    }
    assert [e["row"] for e in entries if e["printed"].lstrip("+") not in source] == []


def test_cells_of_the_paper() -> None:
    for text, numbers in (
        ("86.28 ± 0.09", (86.28, 0.09, 2, False)),
        ("9,763 / 10,000", (9763, None, 0, False)),
        ("-0.02", (-0.02, None, 2, True)),
    ):
        result = parse_cell(text)
        assert result and (*result.value[:2], result.digits, result.signed) == numbers
    cell = Cell("", "", parse_cell("9,763 / 10,000"), Value(9773.25, 16.3, 3))
    assert cell.content() == "9,763 of 10,000 / 9,773.2 ± 16.3 [3]"
    assert parse_cell("--") is None and Value.of([]) is None
    assert Value.of([1.0, 2.0, 4.0]) == (7 / 3, statistics.stdev([1, 2, 4]), 3)
    # What is rounded to zero is not negative.
    assert [Value(-0.004).text(2, sign) for sign in (True, False)] == ["+0.00", "0.00"]


def test_catalogue() -> None:
    printed = {*load("printed/tables"), *load("printed/figures")}
    assert printed <= set(ITEMS)
    for name, item in ITEMS.items():
        kind, _, label = item.entry.label.partition(":")
        assert label == item.entry.name and (kind == "beyond") == (name not in printed)
        assert set(item.entry.plans) <= set(PLANS)
        assert bool(item.entry.data) == bool(item.entry.commands)


def test_every_trained_cell_is_planned() -> None:
    planned = {
        identity(job.config, run.realization, run.beta)
        for plan in PLANS.values()
        for job in plan.jobs()
        for run in job.runs
    }
    asked = [
        (controls.control_config(name, objective), rules[title], float(beta))
        for name in controls.TABLES
        for rules in [controls.printed_realizations(name)]
        for title, beta, *_ in printed_rows(name)
        for objective in controls.OBJECTIVES
    ]
    settings = product(("cifar10", "cifar100"), (10, 50, 100), controls.OBJECTIVES, RULES)
    asked += [(controlled(d, i, objective=objective), r, 0.0) for d, i, objective, r in settings]
    assert all(identity(*kind) in planned for kind in asked)
    assert identity(controlled("cifar10", 30), "native", 0.0) not in planned


def test_the_page_of_queries_names_every_key() -> None:
    """Of measures and their terms in the TOML files, and every file."""
    page = (ROOT / "queries.md").read_text()
    package = ROOT / "resultant_reproduction"
    entries = [*tomllib.loads((package / "pages/claims.toml").read_text())["claim"]]
    entries += tomllib.loads((package / "pages/beyond.toml").read_text())["contrast"]
    keys = {name for entry in entries for name in entry if name in queries.MEASURES}
    for entry in entries:
        for name in ("frozen", "trained"):
            measures = entry.get(name, [])
            for measure in measures if isinstance(measures, list) else [measures]:
                terms = [term for term in measure.get("terms", ()) if isinstance(term, dict)]
                keys |= {*measure, *(k for term in terms for k in term)}
    assert len(keys) > 15
    assert {key for key in keys if not re.search(rf"\b{key}\b", page)} == set()
    for path in package.rglob("*.toml"):
        assert path.name in page, path


TRAINING, FROZEN = (ITEMS[f"{name}-hyperparameters"] for name in ("training", "frozen"))
USUAL = Evidence(Records())
NAMES = ("encoder", "projection", "labels")


def rows_of(outcome: Outcome) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for cell in outcome.cells:
        result.setdefault(cell.row, []).append(cell.content())
    return result


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("Training epochs", {"epochs": 100}),
        ("Encoder", {"architecture": "resnet101", "dataset": "imagenet-lt"}),
        ("Contrastive loss weight", {"contrastive_weight": 2.0}),
        ("Forward views", {"classification_view": True}),
        ("Classification weight (pure / joint)", {"alpha": 0.5}),
        ("Schedule (stated below the table)", {"schedule": "step"}),
    ],
)
@pytest.mark.usefixtures("evidence")
def test_other_presets_are_reported(
    row: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = settings.trained_as

    def changed(condition: str) -> Any:
        config = real(condition)
        listed = config.dataset == "imagenet-lt"
        return config if listed != ("dataset" in change) else replace(config, **change)

    monkeypatch.setattr(settings, "trained_as", changed)
    (note,) = TRAINING.compute(USUAL).notes
    apart = note.partition("as printed, but for ")[2].partition(". Not compared")[0]
    assert apart.startswith(f"{row}, ") and "; " not in apart


@pytest.mark.usefixtures("evidence")  # On its worker the packaged features are known.
def test_stores_add_their_numbers(tmp_path: Path) -> None:
    """Widths and numbers of images of added stores."""
    path, arrays = tmp_path / "s.safetensors", {}
    for split, n in (("train", 10), ("test", 4)):
        x, y = features(torch.full((5,), n), 7)
        arrays |= {f"{split}/{name}": a for name, a in zip(NAMES, (x, x, y), strict=True)}
    write_store(path, arrays, {"num_classes": 5})
    evidence = Evidence(Records(), {"imagenet-lt": path, "inaturalist18": path})
    assert rows_of(TRAINING.compute(evidence))["Encoder dimension"] == ["64 / 64", "2048 / 7"]
    outcome = FROZEN.compute(evidence)
    result = rows_of(outcome)
    assert result["Main linear fitting pool: ImageNet"] == ["115,846 / 50"]
    # Four fifths of each class.
    assert result["Frozen vMF fitting pool: iNaturalist"] == ["353,237 / 40"]
    assert result["Held-out classification images: ImageNet"] == ["50,000 / 20"]
    (note,) = outcome.notes
    assert "not shipped" not in note and "Held-out classification images, ImageNet (50,000" in note
