"""Beyond the paper: photographs in high dimension, group 2 of ``protocol.md``.

Tiny-ImageNet-LT stands in for ImageNet-LT: printed numbers of ImageNet-LT are shown for reading
and judge nothing but the direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from resultant.training.config import TrainConfig
from resultant_reproduction.evidence import Evidence, read_change, read_edit, read_path
from resultant_reproduction.figures import intervals
from resultant_reproduction.formats import p_text
from resultant_reproduction.headline import TITLES
from resultant_reproduction.plan import PHOTO_ARMS, PHOTO_BOTH, stand_in
from resultant_reproduction.records import Records, probe_path
from resultant_reproduction.spec import Cell, Outcome, parse_cell, printed_rows
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tables import FROZEN
from resultant_reproduction.templating import markdown_table
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Arm, Estimate, contrast, holm

IMAGENET = "ImageNet-LT"
# Kinds of networks of the plan: settings, arms, and readouts by name with their paths.
PROBES = {space: probe_path(space) for space in SPACES}
KINDS: dict[str, tuple[TrainConfig, Sequence[tuple[str, float]], dict[str, str]]] = {
    "ResNet-50": (stand_in(), PHOTO_ARMS, PROBES),
    "ResNet-50, joint": (
        stand_in(objective="joint"),
        PHOTO_BOTH,
        {"classifier": "classifier.accuracy"},
    ),
    "ResNeXt-50": (stand_in("resnext50_32x4d"), PHOTO_BOTH, PROBES),
}
# Printed effects of ImageNet-LT: single runs at beta 1.5 (sec:imagenet-strength-extension).
AT_BETA = {"encoder": 23.56 - 23.05, "projection": 37.76 - 36.86}
# Printed accuracies of the classifier, native and angular (tab:joint-fc).
JOINT = "joint-fc"


class Contrast(NamedTuple):
    """An arm less native on one readout, with the printed effect of ImageNet-LT."""

    kind: str
    arm: str
    readout: str
    printed: float | None
    ours: Estimate

    @property
    def title(self) -> str:
        return f"{self.kind}: {self.arm} less ProCo, {self.readout} [{self.ours.runs}]"

    @property
    def verdict(self) -> str:
        """Compare the direction with the printed one."""
        low, high = self.ours.low, self.ours.high
        if not self.printed or low is None or high is None or low <= 0 <= high:
            return "open"
        return "same direction" if (low > 0) == (self.printed > 0) else "other direction"


def printed_effect(kind: str, arm: str, beta: float, readout: str) -> float | None:
    """Return the printed effect of ImageNet-LT in points; None where the paper has none."""
    if kind == "ResNeXt-50":
        return None
    if beta:
        return AT_BETA[readout]
    column = {"temperature": -4, "preserve": -3, "angular": -2}[arm]
    table = JOINT if readout == "classifier" else "angular-training"
    for row in printed_rows(table):
        if row[0] == IMAGENET and readout in ("classifier", row[1].lower()):
            after, before = parse_cell(row[column]), parse_cell(row[-5])
            if after is not None and before is not None:
                return after.value.mean - before.value.mean
    return None


def contrasts(records: Records) -> Iterator[Contrast]:
    """Every arm less native, for the arms that have runs."""
    for kind, (config, arms, readouts) in KINDS.items():
        for (arm, beta), (readout, path) in product(arms[1:], readouts.items()):
            values = [
                [*records.values(config, *own, path).values()] for own in (arms[0], (arm, beta))
            ]
            if all(values):
                before, after = map(Arm.of, values)
                ours = contrast([(1.0, after), (-1.0, before)])
                title = TITLES[arm] + (f", beta {beta:g}" if beta else "")
                printed = printed_effect(kind, arm, beta, readout)
                yield Contrast(kind, title, readout, printed, ours)


def frozen_rows(records: Records) -> Iterator[tuple[str, str, str, list[float]]]:
    """Numbers of frozen native ResNet-50 networks: space, measure, printed text, ours."""
    summaries = _summaries(records, stand_in())
    for table, readers in FROZEN.items():
        for row in printed_rows(table):
            if row[0] != IMAGENET:
                continue
            space = row[1].lower()
            for (column, read), text in zip(readers.items(), row[2:], strict=True):
                values = [v for s in summaries.get(space, ()) if (v := read(s)) is not None]
                yield space, column, text, values
    more: dict[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]] = {
        "boundary error (degrees)": ("0.00272", read_path("boundaries.joint_leading.mae")),
        "margin changes certified (%)": ("99.83", read_path("margins.coverage", 100)),
        "directions of margins (%)": ("99.92", read_path("margins.agreement", 100)),
        "temperature - native, gamma 0": ("+0.195", read_edit(0.0, 0.0, "temperature")),
        "temperature - native, gamma -1": ("-1.665", read_edit(0.0, -1.0, "temperature")),
        "cross-entropy, angular - native": ("–", read_change("nll.angular", "nll.native", 1.0)),
    }
    for column, (text, read) in more.items():
        values = [v for s in summaries.get("projection", ()) if (v := read(s)) is not None]
        yield "projection", column, text, values
    for gamma, text in ((0.0, "+0.315"), (-1.0, "-1.465")):
        others = _summaries(records, stand_in("resnext50_32x4d")).get("projection", ())
        read = read_edit(0.0, gamma, "temperature")
        values = [v for s in others if (v := read(s)) is not None]
        yield "projection", f"ResNeXt-50: temperature - native, gamma {gamma:g}", text, values


def _summaries(records: Records, config: TrainConfig) -> dict[str, list[Mapping[str, Any]]]:
    own = [r["analysis"] for r in records.seeds(config).values() if "analysis" in r]
    return {space: [a[space]["proco"] for a in own] for space in SPACES} if own else {}


def photographs(evidence: Evidence) -> Outcome:
    """The rows of ImageNet-LT on the stand-in."""
    records, cells = evidence.every, []
    found = [*contrasts(records)]
    # One family: the contrastive contrasts of ResNet-50.
    tested = {i: c.ours.p for i, c in enumerate(found) if c.kind == "ResNet-50" and c.ours.p}
    adjusted = dict(zip(tested, holm([*tested.values()]), strict=True))
    for i, c in enumerate(found):
        printed = "–" if c.printed is None else f"{c.printed:+.2f}"
        texts = (printed, c.ours.text(2), p_text(adjusted.get(i)), c.verdict)
        columns = ("ImageNet-LT, printed", "Tiny-ImageNet-LT, ours", "p, Holm", "direction")
        cells += [
            Cell(c.title, column, None, text=t) for column, t in zip(columns, texts, strict=True)
        ]
    frozen = [
        (f"{space}: {column}", text, "no run" if value is None else f"{value.text(4)} [{value.n}]")
        for space, column, text, values in frozen_rows(records)
        for value in (Value.of(values),)
    ]
    reached = [
        f"{kind} {readout} {value.text(2)} % [{value.n}]"
        for kind, (config, arms, readouts) in KINDS.items()
        for readout, path in readouts.items()
        if (value := records.value(config, *arms[0], path)) is not None
    ]
    notes = [
        "Tiny-ImageNet-LT is not ImageNet-LT: printed numbers are for reading. Contrasts are "
        "unpaired, with Welch's interval over networks; [networks of both arms].",
        f"ProCo reaches: {'; '.join(reached)}." if reached else "",
    ]
    sections = {}
    if reached:
        headings = ("", "ImageNet-LT, printed", "Tiny-ImageNet-LT, ours")
        sections["Frozen features of native networks"] = markdown_table(frozen, headings)
    parts = {
        f"{kind}: {arm} {beta:g}": bool(records.seeds(config, arm, beta))
        for kind, (config, arms, _) in KINDS.items()
        for arm, beta in arms
    }
    drawn = {"points": {c.title: (c.ours.mean, c.ours.low, c.ours.high) for c in found}}
    return Outcome(
        cells,
        parts=parts,
        notes=[n for n in notes if n],
        sections=sections,
        draw=(lambda: intervals(drawn)) if found else None,
    )
