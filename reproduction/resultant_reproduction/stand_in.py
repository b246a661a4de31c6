"""Photographs in high dimension, group 2 of ``protocol.md``.

Tiny-ImageNet-LT stands in for ImageNet-LT: printed numbers of ImageNet-LT are shown for reading
and judge nothing but the direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from resultant.training.config import TrainConfig
from resultant_reproduction.evidence import Evidence, Reader, read_edit, read_path
from resultant_reproduction.figures import exact, intervals
from resultant_reproduction.formats import p_text
from resultant_reproduction.headline import TITLES
from resultant_reproduction.plan import PHOTO_ARMS, PHOTO_BOTH, plan, stand_in
from resultant_reproduction.records import Records, dig, probe_path
from resultant_reproduction.spec import Cell, Outcome, Printed, load, parse_cell, printed_rows
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.tables import EQUALIZED, FROZEN
from resultant_reproduction.templating import markdown_table
from resultant_reproduction.value import Estimate, Value, contrast
from resultant_reproduction.verdicts import adjusted

IMAGENET = "ImageNet-LT"
PRINTED, OURS = "ImageNet-LT, printed", "Tiny-ImageNet-LT (stand-in), ours"
# Kinds of networks of the plan: settings, arms, and readouts by name with their paths.
PROBES = {space: probe_path(space) for space in SPACES}
JOINT = {"classifier": "classifier.accuracy"}
KINDS: dict[str, tuple[TrainConfig, Sequence[tuple[str, float]], dict[str, str]]] = {
    "ResNet-50": (stand_in(), PHOTO_ARMS, PROBES),
    "ResNet-50, joint": (stand_in(objective="joint"), PHOTO_BOTH, JOINT),
    "ResNeXt-50": (stand_in("resnext50_32x4d"), PHOTO_BOTH, PROBES),
}
IN_TEXT = load("printed/in_text")
# Printed accuracies of single runs at beta 1.5 (sec:imagenet-strength-extension).
AT_BETA = {e["column"].lower(): e["printed"] for e in IN_TEXT["angular-training"]}
# Printed changes of encoders at beta 0 and gamma 0 by backbone (app:cross-backbone).
ENCODERS = [e["printed"] for e in IN_TEXT["cross-backbone"] if "frozen" in e]


class Effect(NamedTuple):
    """An effect on the stand-in with the printed one of ImageNet-LT, and its networks per arm."""

    title: str
    printed: float | None
    ours: Estimate
    networks: tuple[int, ...]

    @property
    def direction(self) -> str:
        """Compare the direction with the printed one; a dash where nothing is printed."""
        if self.printed is None:
            return "–"
        if not self.printed or not self.ours.sign:
            return "open"
        return "same direction" if self.ours.sign * self.printed > 0 else "other direction"

    def row(self, digits: int) -> tuple[str, ...]:
        """Cells of title, printed, ours and direction."""
        printed = "–" if self.printed is None else f"{self.printed:+.{digits}f}"
        ours = f"{self.ours.text(digits)} [{self.networks[0]}]"
        return self.title, printed, ours, self.direction


def effect(title: str, printed: float | None, *arms: Sequence[float]) -> list[Effect]:
    """Estimate a mean over networks, or the difference of two arms; none without networks."""
    if not all(arms):
        return []
    terms = [*zip((1.0, -1.0), map(Value.over, arms), strict=False)]
    return [Effect(title, printed, contrast(terms), tuple(map(len, arms)))]


def frozen(records: Records, space: str, read: Reader, kind: str = "ResNet-50") -> list[float]:
    """Read a number of the frozen summaries of native networks."""
    numbers = map(read, records.frozen(KINDS[kind][0])[space])
    return [v for v in numbers if v is not None]


def arm_title(arm: str, beta: float) -> str:
    """Name an arm, with its strength where that is not 0."""
    return TITLES[arm] + (f", beta {beta:g}" if beta else "")


def printed_accuracy(kind: str, arm: str, beta: float, readout: str) -> Printed | None:
    """Look up the printed accuracy of ImageNet-LT (%); None where the paper has none."""
    if kind == "ResNeXt-50" or beta:
        return parse_cell(AT_BETA[readout]) if beta else None
    column = {"native": -5, "temperature": -4, "preserve": -3, "angular": -2}[arm]
    rows = printed_rows("joint-fc" if readout == "classifier" else "angular-training")
    named = (r for r in rows if r[0] == IMAGENET and readout in ("classifier", r[1].lower()))
    return parse_cell(next(named)[column])


def printed_effect(kind: str, arm: str, beta: float, readout: str) -> float | None:
    """Return the printed effect of ImageNet-LT in points; None where the paper has none."""
    own = ((arm, beta), ("native", 0.0))
    after, before = (printed_accuracy(kind, *each, readout) for each in own)
    return None if after is None or before is None else after.value.mean - before.value.mean


def contrasts(records: Records, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Effect]:
    """Every arm less native, for the arms that have runs."""
    for kind in kinds:
        config, arms, readouts = KINDS[kind]
        for arm, (readout, path) in product(arms[1:], readouts.items()):
            title = f"{kind}: {arm_title(*arm)} less ProCo, {readout}"
            runs = ([*records.values(config, *own, path).values()] for own in (arm, arms[0]))
            yield from effect(title, printed_effect(kind, *arm, readout), *runs)


def _printed_cells() -> Iterator[tuple[str, Reader, str, str]]:
    """Printed cells of ImageNet-LT: space, reader of ours, name and text."""
    named = load("beyond")["stand-in"]["columns"]
    for table, readers in FROZEN.items():
        for condition, space, *texts in printed_rows(table):
            for (column, read), text in zip(readers.items(), texts, strict=True):
                if condition == IMAGENET and column in named:
                    yield space.lower(), read, named[column], text


def frozen_numbers(records: Records) -> Iterator[tuple[str, ...]]:
    """Numbers of frozen native ResNet-50 networks: title, printed, and ours with the digits of the
    printed one."""
    in_text = (
        ("projection", read_path(e["path"], e.get("scale", 1.0)), e["title"], e["printed"])
        for e in load("beyond")["stand-in"]["in_text"]
    )
    for space, read, name, text in (*_printed_cells(), *in_text):
        if read is not EQUALIZED:
            value, digits = Value.of(frozen(records, space, read)), len(text.partition(".")[2])
            queries = frozen(records, space, read_path("cosine.queries"))
            of = f" of {queries[0]:,.0f}" if queries and "queries" in name else ""
            ours = f"{value.text(digits)}{of} [{value.n}]" if value else "no run"
            yield f"{space}: {name}", text, ours


def frozen_effects(records: Records) -> list[Effect]:
    """Effects of equal gains on frozen native ResNet-50 networks, in points."""
    cells = [cell for cell in _printed_cells() if cell[1] is EQUALIZED]
    found = (effect(f"{a}: {n}", float(t), frozen(records, a, r)) for a, r, n, t in cells)
    return [e for own in found for e in own]


def scaled_effects(records: Records) -> list[Effect]:
    """Change of the cross-entropy by equal gains where each rule has a fitted scale (group 5)."""
    fitted = [r["calibration"] for r in records.seeds(stand_in()).values() if "calibration" in r]
    title = "cross-entropy with fitted scales, Pure Angular - native"
    nats = {space: [own[space]["proco"]["nats"][0] for own in fitted] for space in SPACES}
    return [own for space in SPACES for own in effect(f"{space}: {title}", None, nats[space])]


def edits(records: Records) -> list[Effect]:
    """Changes of frozen features by direct temperature, by backbone, strength and prior
    (tab:cross-backbone), in points."""
    printed = [("projection", *row) for row in printed_rows("cross-backbone") if row[0] != "1"]
    effects = []
    for i, name in enumerate(("ResNet-50", "ResNeXt-50")):
        for space, beta, gamma, *texts in [*printed, ("encoder", "0", "0", *ENCODERS)]:
            read = read_edit(float(beta), float(gamma), "temperature")
            title = f"{name}, {space}: temperature - native, beta {beta}, gamma {gamma}"
            effects += effect(title, float(texts[i]), frozen(records, space, read, name))
    return effects


def accuracy_rows(records: Records) -> Iterator[tuple[str, ...]]:
    """Accuracies after training, printed and ours: arm, and one cell per readout."""
    planned = len(plan("tiny").seeds)
    for kind, (config, arms, readouts) in KINDS.items():
        for arm in arms:
            texts: dict[str, str] = dict.fromkeys((*SPACES, "classifier"), "")
            for readout, path in readouts.items():
                ours = records.value(config, *arm, path)
                printed = printed_accuracy(kind, *arm, readout)
                own = f"{ours.text(2)} [{ours.n} of {planned}]" if ours else "no run"
                texts[readout] = f"{printed.text if printed else '–'} / {own}"
            yield f"{kind}: {arm_title(*arm)}", *texts.values()


def equal_gain(records: Records) -> list[Effect]:
    """Pure Angular at beta 0 less ProCo after contrastive training of ResNet-50."""
    name = f"ResNet-50: {TITLES['angular']} less ProCo, "
    return [c for c in contrasts(records, ("ResNet-50",)) if c.title.startswith(name)]


def listed(effects: Sequence[Effect]) -> str:
    """List effects of encoder and projection with networks and direction."""
    return ", ".join(
        f"{next(s for s in SPACES if s in e.title)} {e.ours.text(2)} "
        f"[{' and '.join(map(str, e.networks))}] ({e.direction})"
        for e in effects
    )


def headline(records: Records) -> str:
    """The answer in two sentences; parts without networks are left out."""
    parts = {
        "equal gains change frozen features by": frozen_effects(records),
        "training with Pure Angular in place of ProCo changes long-tail probes by": equal_gain(
            records
        ),
    }
    texts = [f"{words} {listed(own)} points" for words, own in parts.items() if own]
    return f"On Tiny-ImageNet-LT, a stand-in, {'; '.join(texts)} [networks]." if texts else ""


def repeated_note(records: Records) -> str:
    """Say how far probes (%) of ResNet-50 networks moved that were trained again with the same
    seed; empty without such networks."""
    config, arms, readouts = KINDS["ResNet-50"]
    moved = []
    for arm in arms:
        counted = records.seeds(config, *arm)
        for again in records.trainings(config, *arm)[len(counted) :]:
            first = counted[again["seed"]]
            both = ([dig(r, path) or 0.0 for r in (again, first)] for path in readouts.values())
            steps = [100 * (a - b) for a, b in both]
            moved.append(f"{arm_title(*arm)} {' / '.join(f'{step:+z.2f}' for step in steps)}")
    if not moved:
        return ""
    return (
        "Two networks know little of their spread, and an interval of theirs may be narrow by "
        f"chance. {len(moved)} networks were trained again with the same seed. The repetitions "
        "count in no contrast; their probes (encoder / projection) moved by "
        f"{', '.join(moved)} points."
    )


def _sections(
    records: Records, started: bool, frozen: Sequence[Effect], by_prior: Sequence[Effect]
) -> dict[str, str]:
    """Further tables of the page, by heading."""
    sections, headings = {}, ("", PRINTED, OURS)
    if started:
        about = f"A cell is *{PRINTED} / {OURS}*, with [networks of those planned].\n\n"
        columns = ("", "encoder probe (%)", "projection probe (%)", "classifier (%)")
        title = "Accuracy after training (Tables 1 and 15)"
        sections[title] = about + markdown_table([*accuracy_rows(records)], columns)
    if frozen:
        rows = [e.row(2) for e in frozen] + [e.row(4) for e in scaled_effects(records)]
        rows += [e.row(3) for e in by_prior]
        title = "Effects on frozen features of native networks (Tables 3 and 6, calibration)"
        sections[title] = markdown_table(rows, (*headings, "direction"))
        title = "Frozen features of native ResNet-50 (Tables 2 to 5, boundaries, margins)"
        sections[title] = markdown_table([*frozen_numbers(records)], headings)
    return sections


def photographs(evidence: Evidence) -> Outcome:
    """The rows of ImageNet-LT on the stand-in."""
    records, cells = evidence.every, []
    found = [*contrasts(records)]
    # One family: the contrastive contrasts of ResNet-50.
    corrected = adjusted({c.title: c.ours for c in contrasts(records, ("ResNet-50",))})
    for c in found:
        texts = {
            PRINTED: c.row(2)[1],
            OURS: c.ours.text(2),
            "networks": " and ".join(map(str, c.networks)),
            "p": p_text(c.ours.p),
            "p, Holm": p_text(corrected.get(c.title)),
            "direction": c.direction,
        }
        cells += [Cell(c.title, column, None, text=text) for column, text in texts.items()]
    frozen, by_prior = frozen_effects(records), edits(records)
    # Of the edits the two that the protocol names.
    named = [e for e in by_prior if e.title.endswith(("beta 0, gamma 0", "beta 0, gamma -1"))]
    drawn = {
        f"{title}, Tiny-ImageNet-LT (stand-in)": {
            f"{e.title} [{e.ours.n}]": (e.ours, exact(e.printed)) for e in effects
        }
        for title, effects in (("Training", found), ("Frozen features", [*frozen, *named]))
        if effects
    }
    parts = {
        f"{kind}: {arm} {beta:g}, {seed}": seed in records.seeds(config, arm, beta)
        for kind, (config, arms, _) in KINDS.items()
        for (arm, beta), seed in product(arms, plan("tiny").seeds)
    }
    points, note = "percentage points", repeated_note(records)
    return Outcome(
        cells,
        parts=parts,
        headline=headline(records),
        notes=[note] if note else [],
        sections=_sections(records, any(parts.values()), frozen, by_prior),
        draw=(lambda: intervals(drawn, points, printed=PRINTED, stacked=True)) if found else None,
    )
