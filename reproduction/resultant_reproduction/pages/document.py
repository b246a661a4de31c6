"""REPRODUCTION.md and the pages of claims, of the headline, of methods, of advice and of runs."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resultant._core import files
from resultant_reproduction.cells.cells import load, say
from resultant_reproduction.cells.charts import intervals, svg
from resultant_reproduction.cells.statistics import NEEDS_DATA, Estimate, Judgement
from resultant_reproduction.cells.text import p_text, render
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.pages import beyond
from resultant_reproduction.pages.claims import HEADINGS, Claim, claims, facts, tally, together
from resultant_reproduction.pages.compute import ITEMS
from resultant_reproduction.runs import items as catalog
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.items import page_name
from resultant_reproduction.runs.records import Records, packaged_json
from resultant_reproduction.studies import headline, training_score, tuned_temperature as tuned
from resultant_reproduction.studies.headline import Row

# Questions beyond the paper whose answers stand in the document.
THIRD = ("temperature-path", "training-gradients", "collapse-law", "training-score")
KEPT = ("dimension", "losses", "calibration", "stand-in")
# Pages of this module.
PAGES = ("judgement", "note", "claims", "headline", "methods", "guide", "runs")


def write(text: Path, pages: Path, evidence: Evidence) -> None:
    """Write ``REPRODUCTION.md``, its pages, the forest plot and the numbers for the README."""
    judged = claims(evidence)
    for path, content in contents(text, pages, evidence, judged).items():
        files.write_text(path, content)
    drawn = {
        title: {f"{name} [{j.n}]": j.pair for name, j in own.items()}
        for title, own in panels(evidence.every, judged).items()
    }
    files.write_text(pages / "forest.svg", svg(intervals(drawn, "percentage points", stacked=True)))


def contents(
    text: Path, pages: Path, evidence: Evidence, judged: Mapping[str, Claim]
) -> dict[Path, str]:
    """Texts of the document, of its pages and of the numbers, by path."""
    folder = Path(os.path.relpath(pages, text.parent))
    every = evidence.every
    photographs = {kind: beyond.listed(kind, evidence) for kind in ("frozen", "trained")}
    values = {
        "claim": judged,
        "counted": sum(claim.counted for claim in judged.values()),
        "tally": tally(judged.values()),
        "fact": facts(evidence),
        "beyond": answers(evidence),
        "scaled": scaled(),
        "pages": folder.as_posix(),
        "scoreboard": scoreboard(judged, folder, photographs["trained"]),
        "photographs": photographs,
        "claims": {
            question["text"]: [
                (f"{text} {_link(c.entry['labels'][0])}", *more)
                for c, (text, *more) in ((c, c.row()) for c in own)
            ]
            for question, own in by_question(judged)
        },
        "headings": HEADINGS,
        "contrast_rows": contrast_rows,
        "setting_rows": setting_rows,
        "apart": headline.apart(every),
        "summary": headline.summary(every),
        "tuned": tuned.answer(evidence),
        "tuned_mean": tuned.whole(evidence),
        "score": training_score.progress(evidence),
        "path": ITEMS["temperature-path"].compute(evidence).headline,
        "runs": sum(r["seed"] not in headline.FIRST_ROUND for r in every),
        "every": every,
        "recorded": Records([*every, *evidence.third]),
        "headline": headline,
        "catalog": catalog,
        "say": say,
    }
    texts = {text: render("reproduction.md", **values)}
    texts |= {pages / f"{name}.md": render(f"{name}.md", **values) for name in PAGES}
    texts[pages / "headline.json"] = json.dumps(numbers(judged, evidence), indent=2) + "\n"
    return {path: own.rstrip("\n") + "\n" for path, own in texts.items()}


def scaled() -> dict[str, str]:
    """Changes on the packaged encoder with fitted scales: cross-entropy, accuracy of mixtures."""
    stored = packaged_json("calibration.json").get("encoder")
    if stored is None:
        return dict.fromkeys(("nats", "mixtures"), "(no record)")
    nats, points = stored["proco"]["nats"], stored["components"]["points"]
    return {"nats": Estimate(*nats).text(4), "mixtures": Estimate(*points).text(2)}


def answers(evidence: Evidence) -> dict[str, tuple[str, str]]:
    """Titles and answers of the questions of the later rounds that have one, by name."""
    asked = (ITEMS[name] for name in (*THIRD, *KEPT))
    found = ((own.entry, own.compute(evidence).headline) for own in asked)
    return {entry.name: (entry.title, text) for entry, text in found if text}


def by_question(judged: Mapping[str, Claim]) -> list[tuple[Mapping[str, Any], list[Claim]]]:
    """Questions with their claims."""
    return [
        (question, [c for c in judged.values() if c.entry["question"] == question["name"]])
        for question in load("pages/claims")["question"]
    ]


def scoreboard(judged: Mapping[str, Claim], folder: Path, other: str = "") -> list[tuple[str, ...]]:
    """One row per question, with the claim that answers it and the verdicts of its claims.
    ``other`` has numbers of the stand-in, for a question without data."""
    rows = []
    for question, own in by_question(judged):
        claim, number = judged[question["claim"]], sum(c.counted for c in own)
        interval = "" if claim.shown[0] is None else f" {claim.row()[3]} ({claim.evidence})"
        subject = claim.entry.get("short", claim.entry["text"])
        ours = f"{claim.ours}{interval}: {claim.verdict}"
        if other and claim.judgement.verdict == NEEDS_DATA:
            page = (folder / page_name("beyond:stand-in")).as_posix()
            ours += f"; [a stand-in]({page}.md): {other}"
        verdict = f"**{together(own)}** (of {number} claims: {tally(own)})"
        what = f"**{question['text']}** {subject}"
        rows.append((what, claim.paper, ours, verdict, _link(question["label"], folder)))
    return rows


def _link(label: str, folder: Path = Path()) -> str:
    """Link the page of a table or figure by its number."""
    name = page_name(label)
    kind, _, number = name.partition("-")
    return f"[{kind.capitalize()} {int(number)}]({(folder / name).as_posix()}.md)"


def contrast_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Rows of contrasts under the headings of ``headline.md``."""
    texts = []
    for title, j, adjusted in rows:
        cells = ("–",) * 5
        if j.ours is not None and j.apart is not None:
            cells = f"{j.ours.mean:+.2f}", j.ours.interval(2), p_text(j.ours.p), p_text(adjusted)
            cells = *cells, f"{j.apart.mean:+.2f} {j.apart.interval(2)}"
        texts.append((title, f"{j.printed:+.2f}", *cells, str(j.n), j.text))
    return texts


def setting_rows(by_setting: Mapping[str, Judgement]) -> list[tuple[str, ...]]:
    """Rows of effects by setting under the headings of ``headline.md``."""
    rows = []
    for name, j in by_setting.items():
        cells = ("–",) * 3
        if j.ours is not None and j.apart is not None:
            cells = f"{j.ours.mean:+.2f}", j.ours.interval(2), j.apart.text(2)
        rows.append((name, f"{j.printed:+.2f}", *cells, str(j.n)))
    return rows


def panels(records: Records, judged: Mapping[str, Claim]) -> dict[str, dict[str, Judgement]]:
    """Effects of the forest plot by panel and name."""
    own = {row.title: row.judgement for row in headline.parts(records)}
    own["temperature"] = headline.effect(records, "temperature")
    titles, known = (
        load("pages/claims")["forest"]["titles"],
        {n: c.judgement for n, c in judged.items()},
    )
    short = {name: c.entry["short"] for name, c in judged.items() if "short" in c.entry} | titles
    return {
        title: {short[name]: (own | known)[name] for name in names}
        for title, names in load("pages/claims")["forest"]["panels"].items()
    }


def numbers(judged: Mapping[str, Claim], evidence: Evidence) -> dict[str, Any]:
    """The few numbers that other documents quote."""

    def interval(own: Estimate | None) -> dict[str, Any]:
        ends = own and {"points": own.mean, "low": own.low, "high": own.high}
        rounded = {key: end and round(end, 2) for key, end in (ends or {}).items()}
        return rounded | ({"networks": own.n} if own else {})

    claimed = {"frozen": judged["frozen-cifar100-encoder"], "training": judged["training"]}
    effects = {
        name: interval(own.judgement.ours) | {"printed": f"{own.judgement.printed:+.2f}"}
        for name, own in claimed.items()
    }
    settings = headline.by_setting(evidence.every).items()
    effects["training"]["by setting"] = {
        name: round(own.ours.mean, 2) for name, own in settings if own.ours is not None
    }
    for name, dataset in {"tuned": "CIFAR-100 ", "tuned-photos": tuned.PHOTOS}.items():
        for space in SPACES:
            own = tuned.effects(evidence, (space,), dataset)["halves"]
            effects[f"{name}-{space}"] = interval(own)
    return effects
