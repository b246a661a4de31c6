"""The tables of the benchmarks are what ``python -m benchmarks --render`` makes of the files that
were measured, and say what is in them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import frozen_tables, loss_tables, render, training_tables
from benchmarks.markdown import amount, insert, table

ROOT = Path(__file__).parents[2]
AGAIN = "run: python -m benchmarks --render"
PLACES = {
    Path("README.md"): ("results",),
    Path("benchmarks/training.md"): ("convolutions", "norms", "steps"),
}
# The log of attempts is written by hand.
BY_HAND = {Path("README.md"): 1, Path("benchmarks/training.md"): 1}


def read(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / f"{name}.json").read_text())


def records() -> list[dict[str, Any]]:
    paths = sorted((ROOT / "reproduction" / "results").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that rendering reads, to be changed."""
    (tmp_path / "benchmarks").mkdir()
    for path in ("README.md", "benchmarks/training.md", "benchmarks/results.md"):
        shutil.copyfile(ROOT / path, tmp_path / path)
    for path in (ROOT / "benchmarks").glob("*.json"):
        shutil.copyfile(path, tmp_path / "benchmarks" / path.name)
    shutil.copytree(ROOT / "reproduction" / "results", tmp_path / "reproduction" / "results")
    shutil.copytree(ROOT / "reproduction" / "pages", tmp_path / "reproduction" / "pages")
    return tmp_path


def cells(text: str, first: str) -> list[str]:
    """The cells of the one row whose first cell is given."""
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("|")]
    (row,) = (row for row in rows if row[0] == first)
    return row


@pytest.mark.parametrize("path", render.documents(ROOT), ids=str)
def test_file_is_as_rendered(path: Path) -> None:
    assert (ROOT / path).read_text() == render.documents(ROOT)[path], f"{path}; {AGAIN}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in PLACES.items() for name in names]
)
def test_edit_by_hand_is_undone(copy: Path, path: Path, name: str) -> None:
    built = render.documents(copy)[path]
    start = built.index(f"<!-- {name}:start -->")
    digit = re.compile(r"\d(?=[^|\n]*\|\n)").search(built, start)
    assert digit is not None
    edited = f"{built[: digit.start()]}{(int(digit[0]) + 1) % 10}{built[digit.end() :]}"
    (copy / path).write_text(edited)
    assert edited != built
    assert render.documents(copy)[path] == built


def test_words_around_tables_stay(copy: Path) -> None:
    path = copy / "README.md"
    path.write_text(f"{path.read_text()}\nA word.\n")
    assert render.documents(copy)[Path("README.md")].endswith("\nA word.\n")


@pytest.mark.parametrize("path", PLACES, ids=str)
def test_tables_are_between_markers(path: Path) -> None:
    text = (ROOT / path).read_text()
    for name in PLACES[path]:
        text = insert(text, name, "")
    assert len(re.findall(r"^\|[ :|-]+\|$", text, re.M)) == BY_HAND[path]


@pytest.mark.slow
@pytest.mark.parametrize("name", render.MEASURED, ids="{}.json".format)
def test_every_measurement_is_shown(copy: Path, name: str) -> None:
    """Each list of rows comes through: all of its numbers doubled change the tables."""
    before = render.documents(ROOT)
    path = copy / "benchmarks" / f"{name}.json"
    known = path.read_text()
    lists = [key for key, value in json.loads(known).items() if isinstance(value, list | dict)]
    assert lists
    for key in set(lists) - {"setting"}:
        whole = json.loads(known)
        whole[key] = doubled(whole[key])
        path.write_text(json.dumps(whole))
        assert render.documents(copy) != before, f"{key} of {name}.json"


def doubled(value: Any) -> Any:
    """Floats doubled; counts and names, which identify rows, stay."""
    if isinstance(value, dict):
        return {key: doubled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [doubled(each) for each in value]
    return 2 * value if isinstance(value, float) else value


def test_loss_beside_the_direct_way() -> None:
    size, direct = "2 x 8 x 3, p = 4", {"called_us": 4000.0, "graph_us": 900.0}
    rows = [
        {"what": f"{size}, native", "kernels": 3, "called_us": 20.0, "graph_us": 6.0, "peak_mb": 1},
        {"what": f"{size}, the direct way", "kernels": 70, **direct, "peak_mb": 1234.5},
        {"what": f"{size}, z mu^T alone", "graph_us": 1.0},
        {"what": f"{size}, its gradient alone", "graph_us": 2.5},
    ]
    text = loss_tables.loss_table({"rows": rows})
    ours = [f"{size}, native", "3", "0.02", "0.006", "1", "200 x", "150 x"]
    assert cells(text, ours[0]) == ours
    assert cells(text, f"{size}, the direct way")[1:5] == ["70", "4", "0.9", "1,234"]
    assert cells(text, f"{size}, its 2 matrix products alone")[3] == "0.0035"
    assert "authors" not in text
    with pytest.raises(ValueError, match=r"expected a row named .* got 'native'"):
        loss_tables.by_size({"rows": [{"what": "native"}]})


def test_loss_beside_the_authors() -> None:
    text = loss_tables.loss_table(read("losses"))
    assert [line.split(" | ")[2] for line in text.splitlines() if "authors" in line] == [
        "31",
        "207",
        "239",
    ]


def test_kernels_add_up() -> None:
    losses = read("losses")
    body = loss_tables.kernel_table(losses).splitlines()[2:]
    shown = [line.strip("| ").split(" | ") for line in body]
    rows = losses["kernels"]["rows"]
    assert sum(float(r[1]) for r in shown) == pytest.approx(sum(r["launches"] for r in rows))
    assert sum(float(r[2]) for r in shown) == pytest.approx(sum(r["us"] for r in rows), abs=0.5)


def test_bar_that_is_not_met_is_told() -> None:
    frozen = read("frozen")
    assert "not met" not in frozen_tables.frozen_table(frozen)
    frozen["rows"][0]["within"] = False
    (line,) = (s for s in frozen_tables.frozen_table(frozen).splitlines() if "not met" in s)
    assert line.startswith(f"| {frozen['rows'][0]['size']} |")
    assert "not met" in "".join(map("".join, render.frozen_bars(frozen)))


def test_frozen_without_devices_or_steps() -> None:
    row = {"size": "large", "train": 10, "test": 1, "dim": 4, "classes": 2, "seconds": 5}
    result = {"seconds": 2.0, "peak_mb": 7}
    block = {"rows": [row | {"memory": 4e9, "measured": result, "within": True}], "threads": 1}
    assert cells(frozen_tables.report(block), "large")[6:] == ["2", "5", "7", "4,000", ""]


def test_best_layout_is_bold() -> None:
    training = read("training")
    text = training_tables.convolution_table(training)
    for runs in (4, 12):
        for i, c in enumerate((16, 32, 64), 1):
            rows = [r for r in training["convolutions"] if (r["runs"], r["channels"]) == (runs, c)]
            bold = [
                line.split(" | ")[i].strip("|* ")
                for line in text.splitlines()
                if line.startswith(f"| {runs} runs") and line.split(" | ")[i].startswith("**")
            ]
            assert bold == [f"{min(sum(r['us']) for r in rows):.1f}"]


def test_steps_by_runs() -> None:
    text = training_tables.step_table(read("training"))
    head = cells(text, "us per view")
    for row in read("training")["steps"]:
        line = cells(text, f"whole step, {'fused' if row['fuse'] else 'separate'} kernels")
        runs = "1 run" if row["runs"] == 1 else f"{row['runs']} runs"
        assert line[head.index(runs)] == f"{row['us a view']:.2f}"


def test_jobs_are_those_of_the_records() -> None:
    known = records()
    jobs = training_tables.jobs(known)
    assert {job["seconds"] for job in jobs} == {record["job_seconds"] for record in known}
    # Records that tell the epochs of their job tell the time a view of its loop.
    message = {r["job_seconds"]: r["us_a_view"] for r in known if "job_epochs" in r}
    assert message
    for job in jobs:
        us = training_tables.us_per_view(job, "seconds")
        if job["seconds"] in message:
            assert us == pytest.approx(message[job["seconds"]], rel=1e-12)


def record(**changes: Any) -> dict[str, Any]:
    config = {"dataset": "cifar10", "imbalance": 100.0, "objective": "contrastive", "epochs": 10}
    config |= {"batch_size": 100, "classification_view": False}
    known = {"config": config, "train_images": 250, "job_runs": 2, "job_seconds": 4.0}
    return known | {"versions": {"torch": "2.6"}} | changes


def test_times_of_a_job() -> None:
    # 2 runs x 10 epochs x 2 batches x 100 images x 2 views
    both = [record(whole_seconds=5.0), record(whole_seconds=6.0)]
    (job,) = training_tables.jobs(both)
    assert job["all views"] == 8000
    assert training_tables.us_per_view(job, "seconds") == pytest.approx(500.0)
    assert training_tables.us_per_view(job, "whole") == pytest.approx(750.0)
    (resumed,) = training_tables.jobs([record(job_epochs=5)])
    assert training_tables.us_per_view(resumed, "seconds") == pytest.approx(1000.0)
    assert training_tables.us_per_view(resumed, "whole") is None
    (done,) = training_tables.jobs([record(job_epochs=0, whole_seconds=3.0)])
    assert training_tables.us_per_view(done, "whole") is None
    row = cells(training_tables.job_table([done]), "CIFAR-10, IF 100")
    assert row[5:] == ["CPU", "separate", "4.0", "", "3.0", ""]


def test_headline_takes_the_last_of_most_runs() -> None:
    given = [
        record(job_runs=runs, job_seconds=s, whole_seconds=s)
        for runs, s in ((3, 1.0), (4, 2.0), (4, 3.0), (2, 4.0))
    ]
    given.append(record(job_runs=5, job_seconds=5.0, whole_seconds=5.0, beside=2))
    ((what, measured, _),) = render.job_bar(training_tables.jobs(given))
    assert what.startswith("4 runs of CIFAR-10, IF 100") and measured.endswith(", 3 s")
    assert not list(render.job_bar(training_tables.jobs([record()])))
    table = training_tables.job_table(training_tables.jobs(given))
    assert table.count("| CPU, 2 concurrent jobs |") == 1


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("nothing", "0 and 0"),
        ("<!-- a:start -->", "1 and 0"),
        ("<!-- a:end --><!-- a:start -->", "1 and 1"),
        ("<!-- a:start --><!-- a:start --><!-- a:end -->", "2 and 1"),
    ],
)
def test_markers_are_there_once(text: str, got: str) -> None:
    with pytest.raises(ValueError, match=f"expected <!-- a:start --> and after it .* got {got}"):
        insert(text, "a", "table")


def test_insert() -> None:
    text = "x\n<!-- a:start -->\nold\n<!-- a:end -->\ny"
    new = insert(text, "a", table(["h", "k"], [["1", "2"]]))
    assert new == "x\n<!-- a:start -->\n| h | k |\n| --- | ---: |\n| 1 | 2 |\n<!-- a:end -->\ny"
    assert insert(new, "a", "old") == text


@pytest.mark.parametrize(
    ("x", "shown"), [(0.0618, "0.0618"), (2.266, "2.27"), (99.6, "99.6"), (34261.1, "34,261")]
)
def test_amount(x: float, shown: str) -> None:
    assert amount(x) == shown
