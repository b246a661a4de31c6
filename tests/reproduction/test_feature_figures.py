"""Figures of features: their checks, their pair of classes, and their texts."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from resultant_reproduction import ITEMS, Evidence, Records
from resultant_reproduction.runs.evidence import trained_as
from resultant_reproduction.studies.feature_figures import closest_pair
from training_records import record

NAN, CIFAR_10 = float("nan"), trained_as("CIFAR-10 / 100")
BARE = Evidence(Records())


def test_the_pair_that_is_drawn() -> None:
    """The closest head and tail with boundaries to draw, however far they move."""
    for kinds, shifts, drawn in (
        ("HH HT HT TT", [9.0, 8.0, 0.1, 7.0], 2),
        ("HH HT HT TT", [9.0, 8.0, NAN, 7.0], 1),
        ("HH HT HT TT", [NAN, NAN, NAN, 7.0], 3),
        ("HH MM TT TT", [0.0, 8.0, 1.0, 7.0], 0),
        ("HH HT HT TT", [NAN] * 4, 0),
    ):
        pairs: Any = SimpleNamespace(kind=kinds.split(), cosine=torch.tensor([0.9, 0.7, 0.8, 0.6]))
        pairs.shift_degrees = torch.tensor(shifts)
        assert closest_pair(SimpleNamespace(boundaries=pairs)) == drawn  # type: ignore[arg-type]


@pytest.mark.usefixtures("evidence")
def test_the_caption_of_boundaries() -> None:
    """All four data sets are counted, CIFAR-10 from records alone."""
    records = []
    for seed, (mae, pairs) in enumerate(((0.01, 45), (0.012, 45), (0.014, 44))):
        kept = {"boundaries": {"joint_leading": {"mae": mae, "comparable": pairs}}}
        own = {"projection": {"proco": kept}}
        records.append(record(CIFAR_10, "native", 0.0, seed, analysis=own))
    for own, mae, pairs, status in (
        ([], "no record", "no record", "2 of 8, 2 with fewer seeds than planned; 4 need data"),
        (records, "0.0120 ± 0.0020 [3]", "44.7 ± 0.6 [3]", "4 of 8"),
    ):
        outcome = (figure := ITEMS["main-boundaries"]).compute(Evidence(Records(own)))
        cells = {(c.row, c.column[:3]): c.content() for c in outcome.cells}
        assert cells["CIFAR-10 / 100", "MAE"] == f"0.0116 / {mae}"
        assert cells["CIFAR-10 / 100", "pai"] == f"45 of 45 / {pairs}"
        assert cells["ImageNet-LT", "pai"] == "52 of 60 / not shipped"
        assert figure.status(outcome).startswith(f"partly rerun ({status}")
