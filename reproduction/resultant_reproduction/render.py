"""Outcomes and claims as rows of tables, as Markdown and as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from resultant_reproduction.catalog import (
    PLACEHOLDERS,
    PLAN_HEADINGS,
    plan_rows,
    plans_note,
    unfinished,
)
from resultant_reproduction.evaluate import DIFFERS
from resultant_reproduction.formats import p_text
from resultant_reproduction.records import Records
from resultant_reproduction.spec import (
    FAILS,
    HOLDS,
    SO_FAR,
    UNTESTED,
    VERDICTS,
    Artefact,
    Cell,
    Change,
    Claim,
    Outcome,
    Value,
)
from resultant_reproduction.stats import over_seeds
from resultant_reproduction.templating import fill, render
from resultant_reproduction.training_claims import SHARED

Rows = list[tuple[str, ...]]

CLAIM_HEADINGS = ("claim", "paper", "ours", "verdict", "rule, or what is missing")
LISTED = ("name", "label", "status", "what would add to it")


def reading_guide() -> str:
    """Return the explanation of numbers and verdicts, as plain paragraphs."""
    text = f"{fill('reading.md')}\n{fill('verdicts.md')}"
    return re.sub(r"^- |[*`]", "", text, flags=re.MULTILINE)


def cell_rows(cells: Sequence[Cell]) -> tuple[tuple[str, ...], Rows]:
    """Headings and rows of a table of cells."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_row: dict[str, dict[str, str]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.column] = cell.content()
    rows = [(row, *(own.get(c, "") for c in columns)) for row, own in by_row.items()]
    return ("", *columns), rows


def change_rows(changes: Sequence[Change]) -> tuple[tuple[str, ...], Rows]:
    """Headings and rows of tested changes."""
    rows = []
    for change in changes:
        ours, i = change.ours, over_seeds(change.differences)
        rows.append(
            (
                *(change.row, change.what),
                "–" if change.paper is None else f"{change.paper:+.2f}",
                "–" if ours is None else ours.text(2, sign=True),
                "–" if i is None or i.low is None else f"{i.low:+.2f} to {i.high:+.2f}",
                "0" if ours is None else str(ours.n),
                p_text(change.p_value),
                change.verdict,
            )
        )
    return ("", "change", "paper", "ours", "95 % interval", "seeds", "p", "verdict"), rows


def claim_row(claim: Claim) -> tuple[str, ...]:
    """The row of a claim."""
    return (
        *(f"{claim.text} ({claim.label})", claim.paper, claim.ours or "–"),
        *(claim.verdict, claim.why),
    )


def verdict_counts(claims: Sequence[Claim]) -> str:
    """Number of claims by verdict."""
    verdicts = [claim.verdict for claim in claims]
    return ", ".join(f"{v}: {n}" for v in VERDICTS if (n := verdicts.count(v)))


def _claims_in_short(claims: Sequence[Claim]) -> str:
    """Verdicts; whether the claims that fail share their runs; sizes that differ."""
    text = f"{len(claims)} claims; {verdict_counts(claims)}."
    failing = [claim for claim in claims if claim.verdict == FAILS]
    shared = [claim for claim in failing if SHARED in claim.why]
    if len(shared) > 1:
        which = "All" if shared == failing else f"{len(shared)} of those"
        text += f" {which} that do not hold are of the same runs: one finding, not {len(shared)}."
    differing = sum(c.verdict in (HOLDS, SO_FAR) and DIFFERS in c.ours for c in claims)
    if differing:
        text += f" {differing} that hold by their size differ with p < 0.05."
    return text


def headlines(artefacts: Mapping[str, Artefact], outcomes: Mapping[str, Outcome]) -> list[str]:
    """Headlines of artefacts, with their labels."""
    return [
        f"{outcome.headline} ({artefacts[name].label})"
        for name, outcome in outcomes.items()
        if outcome.headline
    ]


def artefact_rows(
    artefacts: Mapping[str, Artefact], outcomes: Mapping[str, Outcome], records: Records
) -> Rows:
    """Name, label and status of artefacts, and unfinished plans or data that would add to them."""
    rows: Rows = []
    left = unfinished(records)
    for name, outcome in outcomes.items():
        artefact = artefacts[name]
        trainings, external = artefact.lacking(outcome)
        plans = [plan for plan in artefact.plans if trainings and plan in left]
        sources = [f"`resultant reproduce run {plan}`" for plan in plans]
        sources += [f"{artefact.external}, see below"] if external and artefact.external else []
        rows.append((name, artefact.label, artefact.status(outcome), ", ".join(sources)))
    return rows


def external_commands(artefacts: Mapping[str, Artefact]) -> list[tuple[str, tuple[str, ...]]]:
    """Commands for users who have external data: names of artefacts with their data, commands."""
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for artefact in artefacts.values():
        if artefact.external:
            names.setdefault((artefact.external, artefact.commands), []).append(artefact.name)
    return [(f"{', '.join(who)}: {data}", commands) for (data, commands), who in names.items()]


def section_values(artefact: Artefact, outcome: Outcome) -> dict[str, Any]:
    """Values of the section of an artefact."""
    tested = [change for change in outcome.changes if change.differences]
    return {
        "label": artefact.label,
        "title": artefact.title,
        "status": artefact.status(outcome),
        "remarks": [remark for remark in (outcome.headline, *outcome.lead) if remark],
        "cells": cell_rows(outcome.cells) if outcome.cells else None,
        "changes": change_rows(tested) if tested else None,
        "notes": outcome.notes,
    }


def markdown(
    artefacts: Mapping[str, Artefact],
    outcomes: Mapping[str, Outcome],
    claims: Sequence[Claim],
    records: Records,
) -> str:
    """The whole report; ``records`` are those of the folder that plans add to."""
    return render(
        "report.md",
        records=len(records),
        short=[_claims_in_short(claims), *headlines(artefacts, outcomes)],
        listed=LISTED,
        artefacts=artefact_rows(artefacts, outcomes, records),
        plans_note=plans_note(records),
        plan_headings=PLAN_HEADINGS,
        plans=plan_rows(records),
        verdicts=fill("verdicts.md"),
        claim_headings=CLAIM_HEADINGS,
        claims=[claim_row(c) for c in claims if c.verdict != UNTESTED],
        untested=[(*claim_row(c)[:2], c.why) for c in claims if c.verdict == UNTESTED],
        sections=[section_values(artefacts[name], o) for name, o in outcomes.items()],
        placeholders=PLACEHOLDERS,
        external=external_commands(artefacts),
    )


def as_json(
    artefacts: Mapping[str, Artefact], outcomes: Mapping[str, Outcome], claims: Sequence[Claim]
) -> dict[str, Any]:
    """Every number, for machines."""

    def value(v: Value | None) -> dict[str, Any] | None:
        return None if v is None else v._asdict()

    return {
        "claims": [vars(claim) for claim in claims],
        "artefacts": {
            name: {
                "label": artefacts[name].label,
                "status": artefacts[name].status(outcome),
                "cells": [
                    {
                        "row": c.row,
                        "column": c.column,
                        "paper": None if c.paper is None else c.paper.text,
                        "ours": value(c.ours),
                        "difference": c.difference,
                        "text": c.content(),
                    }
                    for c in outcome.cells
                ],
                "changes": [
                    {
                        "row": c.row,
                        "change": c.what,
                        "paper": c.paper,
                        "differences": list(c.differences),
                        "p": c.p_value,
                        "verdict": c.verdict,
                    }
                    for c in outcome.changes
                ],
                "headline": outcome.headline,
                "notes": list(outcome.notes),
            }
            for name, outcome in outcomes.items()
        },
    }
