"""``resultant compare``: networks, features, the verdict, and input that is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import call, recommended, results
from resultant.features.store import write_store
from small_features import small_features, untimed

Shown = pytest.CaptureFixture[str]

NATIVE, ANGULAR = "native-seed0", "angular-beta0-seed0"


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_two_networks(cifar: Path, trained: Path, capsys: Shown) -> None:
    """The page is about the features of both, and says which network is better; against its own
    features a network is neither better nor worse."""
    a, b = (trained / f"{name}.safetensors" for name in (NATIVE, ANGULAR))
    assert call(f"compare {a} {b} --data {cifar} --out out") == 0
    shown = capsys.readouterr().out
    assert f"A: {NATIVE}.safetensors" in shown and f"B: {ANGULAR}.safetensors" in shown
    assert "for B on the same test rows" in shown
    assert os.listdir() == ["out"]
    found = results("out")
    assert [f["data"]["name"] for f in found["features"]] == 2 * ["encoder", "projection"]
    assert len(found["comparisons"]) == 2
    for c in found["comparisons"]:
        methods = (recommended(found["features"][c[side]]) for side in "ab")
        first, second = (method[c["metric"].split()[0]]["value"] for method in methods)
        assert c["paired"] and c["rows"] == 30
        assert c["difference"]["gain"] == pytest.approx(second - first)
    data = f"--data {cifar} --device cpu"
    assert call(f"extract {b} --out x.safetensors {data}") == 0
    assert call(f"compare {b} x.safetensors --features projection --out out {data}") == 0
    assert "A and B are not significantly different" in capsys.readouterr().out
    found = results("out")
    first, second = (untimed(feature["methods"]) for feature in found["features"])
    assert first == second and found["comparisons"][0]["difference"]["gain"] == 0


@pytest.mark.slow
def test_two_files(capsys: Shown) -> None:
    """The whole report; the verdict on standard output, steps on standard error."""
    for name, noise in (("a", 0.9), ("b", 0.45)):
        write_store(f"{name}.safetensors", small_features(1, dim=8, noise=noise))
    assert call("compare a.safetensors b.safetensors --out out --json s") == 0
    found = results("out")
    (comparison,) = found["comparisons"]
    assert comparison["difference"]["verdict"] == "better" and not comparison["paired"]
    assert found["chosen"] == 1 and found["title"] == "a.safetensors and b.safetensors"
    assert json.loads(Path("s").read_text())["comparisons"] == [comparison]
    shown = capsys.readouterr()
    assert "verdict B is better than A: " in shown.out
    assert "not known to be the same" in shown.out
    for step in ("A: search vMF settings", "B: map and sliders", "write the report"):
        assert f" s  {step}\n" in shown.err


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_other_classes_are_not_compared(capsys: Shown) -> None:
    """Features of one name, or the only ones; classes by name, or by number if they have no names.
    Numbers of words are but their order."""
    arrays = {n: a.numpy() for n, a in small_features(names=("projection",)).items()}

    def labels(change: Any) -> dict[str, Any]:
        return arrays | {n: change(a) for n, a in arrays.items() if n.endswith("labels")}

    np.savez("a", allow_pickle=False, **arrays)
    np.savez("thrice", allow_pickle=False, **labels(lambda y: 3 * y))
    np.savez("named", allow_pickle=False, class_names=np.array(list("abcdef")), **arrays)
    np.savez("words", allow_pickle=False, **labels(lambda y: np.array(list("fedcba"))[y]))
    write_store("encoder.safetensors", small_features(names=("encoder",)))
    write_store("two.safetensors", small_features(names=("encoder", "head")))
    classes = "expected the same classes in both, but class"
    for a, b, fact in (
        ("a.npz", "thrice.npz", f"{classes} 1 is called '1' in a.npz and '3' in thrice.npz"),
        ("a.npz", "words.npz", f"{classes} 0 is called '0' in a.npz and 'a' in words.npz"),
        ("a.npz", "two.safetensors", "got projection in a.npz and encoder, head in two"),
        ("a.npz", "encoder.safetensors", ""),
        ("a.npz", "named.npz", ""),
        ("named.npz", "words.npz", ""),
    ):
        assert call(f"compare {a} {b}") == (2 if fact else 0)
        assert fact in capsys.readouterr().err
