"""The numbers of the kept pages, computed again from the records and the packaged features."""

import re
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import t, ttest_ind, ttest_ind_from_stats
from torch import Tensor

from resultant.classes.finite_sample import cross_fit_temperature, fold_statistics
from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.folds import shuffled_ranks
from resultant.classifiers.inputs import Sample
from resultant.classifiers.left_out import left_out_fold
from resultant.cli import main as cli
from resultant.features.packaged import PACKAGED
from resultant_reproduction import Evidence, Outcome, Records
from resultant_reproduction.cells.text import p_text
from resultant_reproduction.frozen.calibration import over_queries
from resultant_reproduction.frozen.decisions import Policy, decide
from resultant_reproduction.frozen.space import owners
from resultant_reproduction.pages.beyond import answer, contrasts, estimate, kept, listed, rows
from resultant_reproduction.runs.items import catalog, page_name
from resultant_reproduction.runs.plans import stand_in
from resultant_reproduction.studies.tables import frozen_table
from training_records import angular_training, probed

PAGES = Path(__file__).parents[2] / "reproduction" / "pages"
FINAL = [name for name, entry in catalog().items() if entry.final]
SPACES = ("encoder", "projection")
DIGESTS = {
    "pages": "3909a105783aa8bf5f33af6f713ca16588dcd029ddef34d731f0f3b77025264b",
    "records": "5871140452b86b3582d33d8144f9c939be87779499d63f9b9a486c1638648b78",
}


def shown(page: list[str], row: str, column: str | None) -> str:
    """Return the row of a table of a page, or its cell in a column."""
    headings = ""
    for line in page:
        headings = line if line.startswith("|  |") else headings
        if re.match(rf"\| {re.escape(row)}( \||\b[^|]* \[)", line):
            cells = dict(zip(headings.split(" | "), line.split(" | "), strict=True))
            return line if column is None else cells.get(column) or cells[f"{column} |"]
    raise AssertionError(row)


def hyphenated(study: str) -> str:
    """Return a kept page with the hyphens of Python for minus signs."""
    return kept(study, ".md").replace("−", "-")


@pytest.mark.parametrize("study", [name for name in FINAL if name != "baseline"])
def test_rows_of_the_page(study: str, evidence: Evidence) -> None:
    """Mean and interval of every contrast are in its row."""
    page, entries = hyphenated(study).splitlines(), [*contrasts(study)]
    assert len(entries) >= 8 and len(rows(study, evidence)) == len(entries)
    for entry in entries:
        ours = estimate(evidence, entry)
        assert ours is not None and ours.low is not None and ours.high is not None
        numbers = [ours.mean] if entry.get("level") else [ours.mean, ours.low, ours.high]
        sign = "" if entry.get("level") else "+"
        found = [f"{number:{sign},.{entry.get('digits', 2)}f}" for number in numbers]
        # A mean that rounds to zero has no minus sign.
        found[0] = re.sub(r"^-(0\.0*)$", r"+\1", found[0])
        text = shown(page, entry["row"], entry.get("column"))
        assert all(number in text for number in found), (entry, found)


def test_the_command_prints_page_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "beyond-losses", "--out", str(tmp_path)]) == 0
    page, _, computed = capsys.readouterr().out.partition("of these records")
    assert "Is it ProCo's or everyone's?" in page and "SupCon, projection" in computed
    assert (tmp_path / "beyond-losses.md").read_text() == kept("losses", ".md")
    # Without records there are no numbers.
    none = Evidence(Records())
    assert {text for *_, text in rows("losses", none)} == {"no record"}
    assert rows("baseline", none) == [] and answer("frozen-rules", none).headline == ""


def test_native_numbers_are_those_of_the_tables(
    evidence: Evidence, outcomes: dict[str, Outcome]
) -> None:
    """Every row of the baseline is a cell of a table, with the p of Welch's test against three
    seeds, or against one more draw where no spread is printed; the answer counts them."""
    page, far, tested = hyphenated("baseline"), [], []
    tables = {page_name(catalog()[n].label): o.cells for n, o in reversed(outcomes.items())}
    tables["table-01"] = angular_training(evidence.records).cells
    # The baseline is of the first round.
    tables["table-02"] = frozen_table("frozen-vmf", Evidence(evidence.records)).cells
    official = re.split(r" \|\s", (PAGES / "beyond-official-recipe.md").read_text())
    row = r"^\| (?:\[.*?\]\((.*?)\.md\)|public logs): .*? \| (.*?) \| (.*?) \| .*? \| (.*?) \|$"
    for table, both, apart, p in re.findall(row, page, flags=re.M):
        printed, ours = (float(part.split()[0]) for part in both.split(" / "))
        assert ours - printed == pytest.approx(float(apart), abs=0.011)
        if not table:
            assert both in (text.removeprefix("| ") for text in official)
            continue
        far.append(float(apart))
        paper, own = next((c.paper, c.ours) for c in tables[table] if c.content() == both)
        assert paper is not None and own is not None
        if own.sd is None:
            assert p == "–"
        elif paper.value.sd is not None:
            result: Any = ttest_ind_from_stats(*own, *paper.value[:2], 3, equal_var=False)
            tested.append((result.pvalue, p))
        else:
            size = abs(own.mean - paper.value.mean) / (own.sd * sqrt(1 + 1 / own.n))
            tested.append((2 * t.sf(size, own.n - 1), p))
    assert [text for _, text in tested] == [p_text(float(p)) for p, _ in tested]
    near, largest = sum(abs(d) <= 1 for d in far), max(far, key=abs)
    text = answer("baseline", evidence).headline.replace("−", "-")
    assert f"in {near} of {len(far)} numbers, at most {largest:+.2f}" in text and len(far) == 66
    small = sum(p < 0.05 for p, _ in tested)
    assert f"of {len(tested)} that have several seeds {small} differ with p < 0.05" in text


def test_kept_pages_and_their_records_are_as_they_were() -> None:
    """Counts, slopes and ratios in the sentences of these pages were computed from these records;
    whoever changes either computes the sentences again."""
    results = PAGES.parent / "results"
    pages = [path for name in FINAL for path in sorted(PAGES.glob(f"beyond-{name}.*"))]
    records = [*sorted(results.glob("*.json*")), *sorted(results.glob("second-round/*.jsonl"))]
    digests = {
        name: sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
        for name, paths in (("pages", pages), ("records", records))
    }
    assert digests == DIGESTS


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
def test_the_packaged_network(space: str, evidence: Evidence) -> None:
    """Changes over queries: strengths, kappas, and training rows left out of their own class."""
    own = evidence.space(PACKAGED, space)
    native, angular = Policy("native"), Policy("angular")
    betas = {beta: Policy("angular", beta) for beta in (-0.5, 0.5, 1.5, 2.0)}
    decided = decide(own, [native, angular, *betas.values()])
    swept, rules, kappas = (hyphenated(s) for s in ("beta-sweep", "frozen-rules", "estimator"))
    equal = over_queries(decided.right(angular), decided.right(native), 100.0).text()
    before, after = (decided.nll[rule.canonical] for rule in (native, angular))
    losses = over_queries(after, before).text(4)
    assert re.search(rf"^\| packaged {space} \|.*\| {re.escape(losses)} \|", rules, flags=re.M)
    loss = float(before.double().mean())
    assert re.search(rf"{space.capitalize()}: native \| .*? %, NLL {loss:.4f} \|", kappas)
    assert f"| packaged {space} | {equal} |" in rules
    assert f"| {space.capitalize()}: angular less native (points) | {equal} |" in kappas
    for beta, policy in betas.items():
        change = over_queries(decided.right(policy), decided.right(native), 100.0).text()
        assert re.search(rf"^\| beta {beta:g} \|(.*\|)? {re.escape(change)} \|", swept, flags=re.M)
    other = decide(evidence.space(PACKAGED, space, "mle"), [native]).right(native)
    accuracy = 100 * float(other.double().mean())
    assert re.search(rf"{space.capitalize()}: native \|.*\| {accuracy:.2f} %, NLL", kappas)
    right: dict[str, list[torch.Tensor]] = {"native": [], "angular": []}
    for rows_ in torch.arange(len(own.train)).split(2048):
        x, y = own.units("train", rows_), own.labels[rows_]
        sample = Sample(x, y, torch.ones(len(y), dtype=x.dtype), own.num_classes)
        fold = left_out_fold(sample, own.statistics, own.estimator)
        for rule, hits in right.items():
            hits.append(fold.scores(rule, own.tau, 0.0, 0.0).argmax(-1) == fold.y)
    hits, others = (torch.cat(right[rule]) for rule in ("angular", "native"))
    added = over_queries(hits, others, 100.0).text()
    assert f"{space.capitalize()}, query left out" in kappas and f"and {added} without" in kappas


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
def test_cross_fitting_of_the_packaged_network(space: str, evidence: Evidence) -> None:
    """Equalization by temperature less native: in the sample, out of five folds, on held-out
    queries, and with unbiased lengths on both."""
    own = evidence.space(PACKAGED, space)
    x, y = own.units("train", torch.arange(len(own.train))), own.labels
    z, labels = own.units("test", torch.arange(len(own.test_labels))), own.test_labels
    number = torch.arange(len(y)) if own.identities is None else owners(y, own.identities)
    ranks = shuffled_ranks(y[number.argsort()])
    fold, A_ref = (ranks % 5)[number], float(own.state.resultant.mean())
    parts = fold_statistics(x, y, fold, own.num_classes, 5)
    clip: Any = {"r_min": 0.5, "r_max": 2.0, "estimator": own.estimator}

    def right(rows: Tensor, of: Tensor, state: Any, tau: Any, rule: str = "native") -> Tensor:
        return class_scores(rows.to(state.mu.dtype), state, tau, rule).argmax(1) == of

    fit = cross_fit_temperature(parts, own.tau, A_ref, **clip)
    out = torch.zeros(3, len(y), dtype=torch.bool)
    for k, part in enumerate(parts):
        at, rest = fold == k, own.statistics.without(part).state(own.estimator)
        used: Any = (rest, own.tau), (rest, own.tau, "temperature")
        used += ((fit.states[k], fit.temperature[k]),)
        out[:, at] = torch.stack([right(x[at], y[at], *kind) for kind in used])
    whole = cross_fit_temperature(
        [ClassStatistics(own.num_classes, own.dim), own.statistics], own.tau, A_ref, **clip
    )
    state = own.state.to(dtype=own.dtype)
    kinds: Any = (state, own.tau), (state, own.tau, "temperature")
    native, warm = (right(z, labels, *kind) for kind in kinds)
    fresh = right(z, labels, whole.states[0], whole.temperature[0])
    within = [right(x, y, *kind) for kind in kinds]
    pairs = (within[1], within[0]), (out[1], out[0]), (out[2], out[0])
    pairs = *pairs, (warm, native), (fresh, native)
    texts = [over_queries(*pair, 100.0).text() for pair in pairs]
    line = re.search(rf"^{space.capitalize()}, cross-fitted: .*", hyphenated("estimator"), re.M)
    assert line is not None and re.findall(r"[+-]\d+\.\d\d \[.*?\]", line[0])[:5] == texts


def test_effects_that_the_document_lists() -> None:
    """Direction against the printed effect; of a network trained twice one record counts."""
    arms = (0.30, 0.31, 0.305), (0.33, 0.34, 0.338), (0.28, 0.281, 0.282)
    native, higher, lower = (
        [probed(stand_in(), rule, seed, v) for seed, v in enumerate(values)]
        for rule, values in zip(("native", "angular", "angular"), arms, strict=True)
    )

    def text(*records: dict[str, Any], kind: str = "trained") -> str:
        return listed(kind, Evidence(Records(), second=Records(records)))

    encoder, projection = re.split(r"(?<=\)), ", text(*native, *lower, *native, *higher))
    welch: Any = ttest_ind(arms[1], arms[0], equal_var=False)
    low, high = (100 * end for end in welch.confidence_interval())
    assert encoder == f"encoder +3.10 [{low:+.2f}, {high:+.2f}] [3 and 3] (same direction)"
    assert projection == encoder.replace("encoder", "projection")
    assert "(other direction)" in text(*native, *lower)
    assert text(native[2], higher[0]).startswith("encoder +2.50 [1 and 1] (open), projection")
    assert text(*native, *higher, kind="frozen") == ""
