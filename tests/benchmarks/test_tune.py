"""The comparison of tuned networks runs, continues, and counts what the commands report."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks import tune
from resultant.images.vision import vision_module
from resultant.training.tuner import Tuner


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """CIFAR of four classes, and a small network."""
    rng, arrays = np.random.default_rng(0), {}
    colour = rng.integers(100, 156, (4, 1, 1, 3))
    for split, number in (("train", 30), ("test", 8)):
        y = np.arange(4 * number) % 4
        x = colour[y] + 50 * rng.normal(size=(len(y), 32, 32, 3))
        arrays |= {f"x_{split}": x.clip(0, 255).astype(np.uint8), f"y_{split}": y[:, None]}
    np.savez(tmp_path / "cifar100.npz", **arrays)
    torch.manual_seed(0)
    save_file(
        vision_module("timm").create_model("test_resnet").state_dict(),
        tmp_path / "test_resnet.safetensors",
    )
    return tmp_path


@pytest.mark.slow
def test_arms(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "MOST", 30)
    out, work = data / "tune.jsonl", data / "work"
    given: dict[str, Any] = {"data": data, "out": out, "work": work, "device": "cpu"}
    given |= {
        "sets": ("cifar100",),
        "networks": ("test_resnet",),
        "tails": (10,),
        "epochs": 1,
        "size": 32,
        "seeds": (0,),
    }
    tune.main(**given, arms=("default", "logit-adjusted"))
    first = out.read_text()
    tune.main(**given, arms=("default", "logit-adjusted", "equal time", "supcon", "bcl"))
    assert out.read_text().startswith(first) and tune.tune_steps.Tuner is Tuner
    records = [json.loads(line) for line in out.read_text().splitlines()]
    arms = ["default", "logit-adjusted", "equal time", "supcon", "bcl"]
    assert [record["arm"] for record in records] == arms
    assert records[0]["images"]["test"] == 32
    for record in records:
        # The predictions that are compared are those of the report; classes are equally large.
        share = record[record["chosen"]]["balanced accuracy"]
        assert float(tune.right(record).mean()) == pytest.approx(share)
        assert len(record["labels"]) == 32
    # Seconds of shared features count in all; nothing begins that would end too late.
    assert all(record["all"] > record["seconds"]["fine-tuning"] for record in records)
    given["seeds"] = (1,)
    tune.main(**given, arms=("default",), minutes=0.0)
    assert len(tune.read(out)) == 5
    # All arms begin with the same features.
    assert len({record["frozen"]["accuracy"] for record in records}) == 1
    lines = capsys.readouterr().out.strip().splitlines()
    # A line of each record, and the two tables.
    assert len(lines) == 5 + 4 + 2 + 5 + 2 + 5 and "| bcl |" in lines[-1]
    ahead = tune.right(records[0]).mean() - tune.right(records[-1]).mean()
    assert f"{100 * float(ahead):+.1f} [" in lines[-1]


def test_rivals_are_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is that of the reproduction, next to the same classifier; prototypes move."""
    from training.test_tuner import CONFIG, N, tuner_of

    for kind in ("supcon", "bcl"):
        monkeypatch.setattr(tune.Rival, "kind", kind)
        rival = tuner_of(CONFIG, kind=tune.Rival)
        assert isinstance(rival, tune.Rival) and rival.classification is not None
        before = [p.clone() for p in rival.rival.parameters()]
        x, y = rival.batches.batch()
        outputs = rival.network.train()(x)
        loss = rival.loss(outputs.projection, outputs.logits, y)
        z, s = (a.unflatten(0, (-1, N)) for a in (outputs.projection, outputs.logits))
        expected = rival.rival(z[:, None], y)[0] + rival.classification(s, y)
        torch.testing.assert_close(loss, expected)
        rival.train_epoch(0, [])
        moved = [
            not torch.equal(a, b) for a, b in zip(before, rival.rival.parameters(), strict=True)
        ]
        assert all(moved) and len(moved) == (kind == "bcl")


def test_the_page_of_the_views_is_of_its_records() -> None:
    """Percents of every row of the second table; as many rows as records."""
    folder = Path(tune.__file__).parent
    page = (folder / "tune.md").read_text().partition("### Trained on one filter")[2]
    rows = [line.split("|")[2:-1] for line in page.splitlines() if re.match(r"\| .*\d\) \|", line)]
    records = [json.loads(line) for line in (folder / "tune-views.jsonl").read_text().splitlines()]

    def cell(method: dict[str, float]) -> str:
        return f"{100 * method['balanced accuracy']:.1f} ({100 * method['tail']:.1f})"

    assert [[a.strip() for a in row] for row in rows] == [
        [
            *(cell(r["test"][kind]) for kind in ("frozen", "own", "refined")),
            f"{r['loss'][-1]:.2f}",
            f"{100 * r['val'][-1]:.1f}",
            f"{100 * r['validation']['own']:.1f}",
        ]
        for r in records
    ]
