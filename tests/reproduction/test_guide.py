"""The guide: its hand-written judgements hold on the packaged records."""

from __future__ import annotations

import pytest

from resultant.analysis import metrics
from resultant_reproduction import Evidence, Outcome, formats
from resultant_reproduction.evidence import pooled, read_edit, subtract
from resultant_reproduction.guide import NLL, by_setting, numbers, over_records
from resultant_reproduction.stats import Effects, Signs

CIFAR10, CIFAR100 = (
    [f"{name} {space}" for space in ("encoder", "projection")] for name in ("CIFAR-10", "CIFAR-100")
)


@pytest.fixture(scope="module")
def frozen(evidence: Evidence) -> dict[str, Effects]:
    return {**over_records(evidence)}


def test_one_level() -> None:
    """The level of this package, which loads without torch, is that of the library."""
    assert formats.SIGNIFICANCE == metrics.SIGNIFICANCE


def test_equalize_and_keep(evidence: Evidence, frozen: dict[str, Effects]) -> None:
    """Equalize on CIFAR-100; keep the gains on CIFAR-10 at IF 100; no gain on CIFAR-10."""
    native = frozen["PA - native"]
    assert Signs.of(native) == (CIFAR100, [], CIFAR10, [])
    signs = Signs.of({**native, **by_setting(evidence)})
    assert set(CIFAR100) <= set(signs.up) and not set(CIFAR10) & set(signs.up)
    assert signs.down == [f"CIFAR-10 / 100 {space}" for space in ("encoder", "projection")]


def test_how_and_how_much(evidence: Evidence, frozen: dict[str, Effects]) -> None:
    """Cosine serves as well, realizations do not differ, the prior matters, beta 0 is best."""
    assert not Signs.of(frozen["PA - cosine"]).up
    rules = {
        f"{r}, {p}": i for r in ("temperature", "preserve") for p, i in frozen[f"{r} - PA"].items()
    }
    assert not Signs.of(rules).seen
    moved = {
        f"{gamma:g} {place}": i
        for gamma in (-1.0, 1.0)
        for place, i in pooled(evidence, subtract(read_edit(0.0, gamma), read_edit(0.0))).items()
    }
    places = {name.partition(" ")[2] for name in Signs.of(moved).seen}
    assert places == {*CIFAR10, *CIFAR100}
    columns = {0.0: "PA - native", 0.5: "beta 0.5", 1.5: "beta 1.5"}
    every = {f"{b:g} {p}": i for b, column in columns.items() for p, i in frozen[column].items()}
    up = Signs.of(every).up
    for place in CIFAR100:
        helpful = {b: every[f"{b:g} {place}"].mean for b in columns if f"{b:g} {place}" in up}
        assert max(helpful, key=helpful.__getitem__) == 0
    assert not [name for name in up if name.partition(" ")[2] in CIFAR10]
    assert Signs.of(frozen[NLL])[:2] == (CIFAR10, CIFAR100)


@pytest.mark.slow
def test_training(evidence: Evidence, frozen: dict[str, Effects]) -> None:
    """Training shows no effect under the frequency prior, and harm under a uniform one."""
    result = numbers(evidence, frozen)
    for name in ("training", "views", "estimators", "strengths", "uniform_joint"):
        assert result[name] and not Signs.of(result[name]).seen, name
    for name in ("joint", "power"):
        assert not Signs.of(result[name]["effects"]).seen and result[name]["single"] == "none"
    for effects in (result["uniform"], result["failing"]["effects"]):
        assert effects and Signs.of(effects).down == list(effects)


@pytest.mark.slow
def test_every_number_is_filled_in(outcomes: dict[str, Outcome]) -> None:
    text = "\n".join(outcomes["guide"].lead)
    assert "nothing measured" not in text and "no record" not in text and "{{" not in text
    assert [line for line in outcomes["guide"].lead if line.endswith(":")] == [
        *("When to edit:", "How:", "By how much:", "When not to:")
    ]
