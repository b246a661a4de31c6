"""Claims of the paper, measured and judged by the rules of ``protocol.md``."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from resultant_reproduction.cells import statistics as judging
from resultant_reproduction.cells.cells import load, parse_cell
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.pages.queries import arms
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.studies import headline
from resultant_reproduction.studies.training_gradients import fits, verdict
from resultant_reproduction.theory import CHECKS

HEADINGS = ("claim", "paper", "ours", "95 % interval", "ours less printed", "verdict", "evidence")
# Share of a printed number that is its margin.
MARGIN = 0.25
MIXED = "mixed"


@dataclass(frozen=True)
class Claim:
    """An entry of ``claims.toml`` with its verdict, and its numbers and evidence as text."""

    entry: Mapping[str, Any]
    judgement: judging.Judgement
    ours: str = ""
    paper: str = ""
    evidence: str = ""

    @property
    def shown(self) -> tuple[judging.Estimate | None, judging.Estimate | None]:
        """Our value, and ours less printed; a ratio to the printed one on a log scale."""
        pair = self.judgement.ours, self.judgement.apart
        return (_exponential(pair[0]), _exponential(pair[1])) if self.entry.get("log") else pair

    @property
    def signed(self) -> bool:
        return self.entry["kind"] == "effect" or self.entry.get("signed", False)

    def value(self, digits: int) -> str:
        """Format our value with its interval."""
        ours = self.shown[0]
        return "(no record)" if ours is None else ours.text(digits, self.signed)

    def row(self) -> tuple[str, ...]:
        """Cells under `HEADINGS`."""
        ours, apart = self.shown
        digits, log = self.entry.get("digits", 2), self.entry.get("log", False)
        remarks = [_threshold(self.entry), _margin(self.entry), self.entry.get("judgement", "")]
        text = " ".join(filter(None, remarks))
        return (
            self.entry["text"] + (f". *{text}*" if text else ""),
            *(self.paper, self.ours),
            "–" if ours is None else ours.interval(digits, self.signed),
            "–" if apart is None else ("ratio " if log else "") + apart.interval(digits, not log),
            *(self.verdict, self.evidence),
        )

    @property
    def counted(self) -> bool:
        """False for a claim under another setting, which is shown beside the claim."""
        return "variant_of" not in self.entry

    @property
    def verdict(self) -> str:
        return self.judgement.text


def _threshold(entry: Mapping[str, Any]) -> str:
    """Say which side of a threshold an entry claims; empty without one."""
    if "threshold" not in entry:
        return ""
    sides = {"above": "at least", "below": "at most", "within": "a size of at most"}
    words = [f"{sides[entry.get('side', 'above')]} {entry['threshold']:g}"]
    words += [entry["threshold_text"]] if "threshold_text" in entry else []
    return f"Threshold: {', '.join(words)}."


def margin(entry: Mapping[str, Any]) -> float:
    """The distance from the printed number within which an interval confirms it: the threshold of a
    size, a quarter of the number, or of its distance from the end of its scale if that is less."""
    if (number := printed(entry)) is None:
        return math.inf
    if entry.get("side") == "within":
        return float(entry["threshold"])
    if entry.get("log"):
        return math.log1p(MARGIN)
    return MARGIN * min(abs(number), abs(entry.get("end", math.inf) - number))


def _margin(entry: Mapping[str, Any]) -> str:
    """Say how far an interval may reach; empty where no printed number is compared."""
    if entry["kind"] != "number" or not 0 < (reach := margin(entry)) < math.inf:
        return ""
    if entry.get("log"):
        return f"Margin: a factor of {1 + MARGIN:g}."
    return f"Margin: {reach:.2g} to either side."


def _exponential(own: judging.Estimate | None) -> judging.Estimate | None:
    if own is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (own.low, own.high))
    return own._replace(mean=math.exp(own.mean), low=low, high=high)


def printed(entry: Mapping[str, Any]) -> float | None:
    """The printed number of an entry: given, the mean of given ones, or of a column of a table."""
    if "printed" in entry:
        numbers = entry["printed"]
        return fmean(numbers) if isinstance(numbers, list) else float(numbers)
    if "column" not in entry:
        return None
    name, *columns = entry["column"]
    table, keys = load("printed/tables")[name], entry["frozen"]
    spaces = keys.get("spaces", SPACES)
    values = []
    for row in table["rows"]:
        if row[0] in keys["conditions"] and row[1].lower() in spaces:
            cells = [parse_cell(row[table["columns"].index(column)]) for column in columns]
            after, *before = (cell.value.mean for cell in cells if cell is not None)
            values.append(after - sum(before))
    return fmean(values)


def evaluate(evidence: Evidence, entry: Mapping[str, Any]) -> Claim:
    """Measure and judge one entry."""
    if "checks" in entry:
        return _checked(evidence, entry)
    number, digits, kind = printed(entry), entry.get("digits", 2), entry["kind"]
    if "headline" in entry:
        keys = entry["headline"]
        settings = headline.matching(keys.get("settings", ""))
        judgement = headline.effect(evidence.every, keys["after"], keys["before"], settings)
    elif kind == "effect":
        assert number is not None
        paper = [(1.0, judging.Value.printed(number))]
        judgement = judging.judge_effect(arms(evidence, entry), paper)
    else:
        threshold, log = entry.get("threshold"), entry.get("log", False)
        if log:
            assert number is not None and threshold is not None
            number, threshold = math.log(number), math.log(threshold)
        side = entry.get("side", "above")
        judgement = judging.judge_number(
            arms(evidence, entry), number, threshold, side, margin(entry)
        )
    if entry.get("defined"):
        judgement = replace(judgement, verdict=verdict(fits(evidence)))
    claim = Claim(entry, judgement)
    own, form = claim.shown[0], f"{'+' if claim.signed else ''}z,.{digits}f"
    ours = "no runs" if own is None else f"{own.mean:{form}}"
    paper = entry.get("paper") or f"{judgement.printed or 0.0:{form}}"
    units = entry.get("units", "network" if judgement.n == 1 else "networks")
    quality = f"{judgement.n} {units}; recipe {entry['recipe']}"
    return Claim(entry, judgement, ours, paper, quality)


def _checked(evidence: Evidence, entry: Mapping[str, Any]) -> Claim:
    """Judge one check of the theory by its own numbers, or all by how many pass."""
    if entry["checks"] != "all":
        check = evidence.check(*entry["checks"])
        quality = "check" if entry["recipe"] == "none" else "check; grid guessed"
        return Claim(entry, judging.judge_check(check.holds), check.ours, check.paper, quality)
    held = [evidence.check(name).holds for name in CHECKS]
    unsettled = f", {held.count(None)} are not settled" if None in held else ""
    ours = f"{held.count(True)} of {len(held)} checks pass{unsettled}"
    judgement = judging.judge_check(False not in held)
    return Claim(entry, judgement, ours, entry["paper"], f"{len(held)} checks")


def claims(evidence: Evidence) -> dict[str, Claim]:
    """Evaluate all claims, by name, in the order of the argument."""
    return {entry["name"]: evaluate(evidence, entry) for entry in load("pages/claims")["claim"]}


def tally(judged: Iterable[Claim]) -> str:
    """Count the verdicts."""
    count = Counter(claim.judgement.verdict for claim in judged if claim.counted)
    return ", ".join(f"{count[word]} {word}" for word in judging.VERDICTS if count[word])


def together(judged: Iterable[Claim]) -> str:
    """Return the verdict of several claims, of which inconclusive ones and those without data
    do not count; mixed if they disagree on the printed side."""
    own = [claim for claim in judged if claim.counted]
    verdicts = {claim.judgement.verdict for claim in own}
    settled = verdicts - {judging.INCONCLUSIVE, judging.NEEDS_DATA}
    if not settled:
        needs = all(claim.judgement.verdict == judging.NEEDS_DATA for claim in own)
        return judging.NEEDS_DATA if needs else judging.INCONCLUSIVE
    if len(settled) == 1:
        return settled.pop()
    return MIXED if judging.NOT_REPRODUCED in settled else judging.OTHER_SIZE


def facts(evidence: Evidence) -> dict[str, str]:
    """Measure the numbers of the guide that are no claims, as text with intervals."""
    found = ((entry, arms(evidence, entry)) for entry in load("pages/claims")["fact"])
    texts = {e["name"]: judging.contrast(own).text(e.get("digits", 2)) for e, own in found if own}
    return {entry["name"]: "(no record)" for entry in load("pages/claims")["fact"]} | texts
