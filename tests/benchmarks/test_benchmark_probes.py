"""The choices of a linear probe: plain torch is ours where the choices are, and each is one."""

from __future__ import annotations

import pytest
import torch

from benchmarks import probe_tables, probes
from resultant.training.config import ProbeConfig
from resultant.training.probe import linear_probes


def split(rows: int = 90) -> probes.Split:
    """Five classes that are not apart, so that steps matter."""
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(2 * rows) % 5
    centres = torch.randn(5, 8, generator=generator)
    x = centres[y] + 1.5 * torch.randn(2 * rows, 8, generator=generator)
    return x[:rows], y[:rows], x[rows:], y[rows:]


@pytest.mark.parametrize("seed", range(3))
def test_plain_probe_is_ours(seed: int) -> None:
    x, y, test, expected = split()
    config = ProbeConfig(seed=seed, epochs=7, batch_size=32)
    ours = linear_probes(x[None], y, test[None], expected, 5, config)
    assert probes.accuracy(split(), config) == pytest.approx(100 * float(ours.accuracy[0]))


def test_last_batch_is_left_out_where_it_is_not_full() -> None:
    """With one batch an epoch of which nothing is left, the weights stay zero: the first class."""
    config = ProbeConfig(epochs=2, batch_size=100)
    first = 100 * float((split()[3] == 0).double().mean())
    assert probes.accuracy(split(), config, drop=True) == pytest.approx(first)
    assert probes.accuracy(split(100), config, drop=True) == probes.accuracy(split(100), config)


@pytest.mark.slow
def test_choices_and_their_table() -> None:
    result = probes.measure({"encoder": split()}, orders=3)
    assert result["changes"].keys() == probes.CHOICES.keys()
    assert [len(own["encoder"]) for own in result["changes"].values()] == [2, 3, 3, 3]
    text = probe_tables.report({"features": "these", **result})
    own = result["changes"]["rate by steps"]["encoder"]
    assert f"| rate by steps | {min(own):+z.2f} to {max(own):+z.2f} |" in text
    assert f"encoder {result['ours']['encoder']:.2f} %" in text and "3 orders" in text
