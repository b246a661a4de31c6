"""The headline of ``protocol.md``: training with an equalized gain, all networks of the recipe.

Runs are unpaired. Per network the readouts are averaged, per setting the arm means are subtracted,
and the effect is the mean over settings. Numbers are in percentage points.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import NamedTuple

from resultant_reproduction.cells import statistics as value
from resultant_reproduction.cells.cells import load, parse_cell, printed_rows, say
from resultant_reproduction.cells.statistics import adjusted
from resultant_reproduction.cells.text import p_equation
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.runs.evidence import CONDITIONS
from resultant_reproduction.runs.plans import controlled
from resultant_reproduction.runs.records import Records, probe_path

SETTINGS = {n: kind for n, kind in reversed(CONDITIONS.items()) if not isinstance(kind, str)}
# Arms by their names in records, with their columns in Table 1.
ARMS = {"native": 2, "temperature": 3, "preserve": 4, "angular": 5}
# Arms that the second round trained.
TRAINED = ("native", "temperature", "angular")
# Titles of the arms, as the table prints them.
TITLES = {arm: load("printed/tables")["angular-training"]["columns"][i] for arm, i in ARMS.items()}
FIRST_ROUND = range(10)


def matching(prefix: str = "") -> list[str]:
    """Settings whose names begin with a prefix."""
    return [name for name in SETTINGS if name.startswith(prefix)]


def networks(
    records: Records,
    setting: str,
    arm: str,
    spaces: Sequence[str] = SPACES,
    seeds: Sequence[int] | None = None,
) -> dict[int, float]:
    """Mean long-tail probe accuracy over spaces (%), by seed, of the networks with all spaces."""
    config = controlled(*SETTINGS[setting])
    values = [records.values(config, arm, 0.0, probe_path(space)) for space in spaces]
    known = [s for s in values[0] if all(s in own for own in values)]
    return {s: fmean(own[s] for own in values) for s in known if seeds is None or s in seeds}


def printed_arm(setting: str, arm: str, spaces: Sequence[str] = SPACES) -> value.Value:
    """The printed mean over spaces; the readouts of a network are taken to vary together."""
    cells = []
    for row in printed_rows("angular-training"):
        cell = parse_cell(row[ARMS[arm]])
        if row[0] == setting and row[1].lower() in spaces and cell is not None:
            cells.append(cell.value)
    return value.Value.printed(fmean(v.mean for v in cells), fmean(v.sd or 0.0 for v in cells))


def effect(
    records: Records,
    after: str = "angular",
    before: str = "native",
    settings: Sequence[str] = tuple(SETTINGS),
    spaces: Sequence[str] = SPACES,
    seeds: Sequence[int] | None = None,
) -> value.Judgement:
    """Judge a contrast of two arms, mean over settings; every setting needs runs of both."""
    ours, printed = [], []
    for setting, (arm, sign) in product(settings, ((after, 1.0), (before, -1.0))):
        weight = sign / len(settings)
        values = [*networks(records, setting, arm, spaces, seeds).values()]
        ours += [(weight, value.Value.over(values))] if values else []
        printed.append((weight, printed_arm(setting, arm, spaces)))
    return value.judge_effect(ours if len(ours) == len(printed) else [], printed)


class Row(NamedTuple):
    """A contrast with its title, and the p value corrected within its family."""

    title: str
    judgement: value.Judgement
    adjusted: float | None = None


def family(rows: Mapping[str, value.Judgement]) -> list[Row]:
    """Correct the p values of one family by Holm's method."""
    corrected = adjusted({title: j.ours for title, j in rows.items()})
    return [Row(title, j, corrected.get(title)) for title, j in rows.items()]


def contrasts(records: Records) -> list[Row]:
    """The primary contrast, the secondary ones, and the primary one of the first round alone."""
    pairs = (("angular", "native"), ("temperature", "native"), ("angular", "temperature"))
    rows = [Row(f"{TITLES[a]} less {TITLES[b]}", effect(records, a, b)) for a, b in pairs]
    # The paper reads its number as no gain: one that is not zero contradicts its text.
    title, other, _ = rows[1]
    if other.verdict in (value.CONFIRMED, value.OTHER_SIZE):
        verdict = f"{other.verdict} in size, lack of a gain not reproduced"
        other = replace(other, verdict=verdict)
    rows[1] = Row(f"{title} (the paper: lacks the gain)", other)
    first = effect(records, seeds=FIRST_ROUND)
    return [*rows, Row("Pure Angular less ProCo, seeds of the first round alone", first)]


def parts(records: Records) -> list[Row]:
    """Angular less native on encoders, projections, CIFAR-10 and CIFAR-100: a family of four."""
    rows = {f"{space}s": effect(records, spaces=(space,)) for space in SPACES}
    for dataset in ("CIFAR-10 ", "CIFAR-100 "):
        rows[dataset.strip()] = effect(records, settings=matching(dataset))
    return family(rows)


def readouts(records: Records) -> list[Row]:
    """The twelve readouts of angular less native: a family of twelve."""
    places = product(SETTINGS, SPACES)
    return family({f"{at}, {s}": effect(records, settings=(at,), spaces=(s,)) for at, s in places})


def by_setting(records: Records) -> dict[str, value.Judgement]:
    """Angular less native in each setting, mean of encoder and projection."""
    return {name: effect(records, settings=(name,)) for name in SETTINGS}


def apart(records: Records) -> str:
    """Say how far the effects of the settings differ; empty without intervals."""
    known = {n: j.ours for n, j in by_setting(records).items() if j.ours is not None}
    spread = value.heterogeneity([*known.values()])
    if spread is None:
        return ""
    return say(
        "headline-apart" if spread.p < value.LEVEL else "headline-alike",
        each=", ".join(f"{own.mean:+.2f} ({name})" for name, own in known.items()),
        q=spread.q,
        freedom=spread.freedom,
        p=p_equation(spread.p),
        weighted=spread.weighted.text(2),
        sampled=spread.sampled.text(2),
    )


def found(rows: Sequence[Row]) -> list[str]:
    """Titles of the rows that differ from zero after the correction."""
    return [row.title for row in rows if row.adjusted is not None and row.adjusted < value.LEVEL]


def answer(records: Records) -> str:
    """Say which differences are real, and how large they can still be; empty without intervals."""
    whole, single = effect(records).ours, readouts(records)
    high = {row.title: row.judgement.ours.high for row in single if row.judgement.ours}
    ends = {title: end for title, end in high.items() if end is not None}
    if whole is None or whole.high is None or not ends:
        return ""
    real = found(parts(records)), found(single)
    widest = max(ends, key=ends.__getitem__)
    return say(
        "headline-answer",
        zero="may be zero" if whole.contains(0.0) else "is not zero",
        whole=whole.text(2),
        parts=len(real[0]),
        single=len(real[1]),
        of=len(single),
        names=[f" ({', '.join(titles)})" if titles else "" for titles in real],
        high=whole.high,
        end=ends[widest],
        widest=widest,
    )


def summary(records: Records) -> str:
    """Summarize direct temperature, Holm's correction and the first round."""
    other, first = effect(records, "temperature").ours, effect(records, seeds=FIRST_ROUND).ours
    if other is None or first is None:
        return ""
    rows = readouts(records)
    texts, number = {"other": other.text(2), "first": first.text(2)}, len(found(rows))
    differ = "differs" if number == 1 else "differ"
    return say("headline-summary", **texts, found=number, of=len(rows), differ=differ)


def spread(records: Records) -> tuple[float, float, float, float, float] | None:
    """Our variance over the printed one, with its F interval, and both pooled deviations."""
    ours, printed = [], []
    for name, space, arm in product(SETTINGS, SPACES, TRAINED):
        values = [*networks(records, name, arm, (space,)).values()]
        if len(values) > 1:
            ours.append(values)
            printed.append((printed_arm(name, arm, (space,)).sd or 0.0) ** 2)
    if not ours:
        return None
    own, freedom = value.pooled_variance(ours)
    theirs, other = fmean(printed), (value.PRINTED_SEEDS - 1) * len(printed)
    ratio = value.variance_ratio((own, freedom / len(SPACES)), (theirs, other / len(SPACES)))
    return *ratio, math.sqrt(own), math.sqrt(theirs)
