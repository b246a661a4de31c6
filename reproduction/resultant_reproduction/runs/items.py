"""Overview of tables, figures and training plans, from the list of items and the records.

Nothing is computed from features and torch is not imported: `resultant reproduce list` prints this.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from resultant_reproduction.cells.cells import load
from resultant_reproduction.runs.plans import PLANS, PlannedJob, missing, workload
from resultant_reproduction.runs.records import Records

Rows = list[tuple[str, ...]]

HEADINGS = ("name", "in the paper", "page", "status", "to complete it")
PLAN_HEADINGS = ("plan", "trainings", "runs done", "left")

# Seeds that extend a plan of one seed.
MORE = (1, 2)


class Entry(NamedTuple):
    """A table or figure, or a question beyond the paper, as in ``items.toml``."""

    name: str
    label: str
    # The function that computes it, as FOLDER.MODULE.FUNCTION.
    by: str = ""
    title: str = ""
    shows: str = ""
    # Training plans whose records it reads, and checks of `resultant verify` behind it.
    plans: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    # Caption of the figure, empty for that of the mechanism, layout of its panels, and
    # labels and limits of those that are curves.
    caption: str = ""
    layout: Mapping[str, Any] = {}
    charts: tuple[Mapping[str, Any], ...] = ()
    # Remarks below its tables, before those of its numbers, and a sentence for numbers.
    notes: tuple[str, ...] = ()
    says: str = ""
    # Source of the numbers where no training is.
    source: str = ""
    # Data that may not be shipped, commands for a user who has them, and the part that needs them:
    # all, some, optional, or none if empty.
    data: str = ""
    commands: tuple[str, ...] = ()
    needs: str = ""
    # The page is kept, see `beyond`.
    final: bool = False

    @property
    def kind(self) -> str:
        """The word for complete numbers of ours."""
        return "compared with our settings" if self.source.startswith("settings") else "rerun"


def page_name(label: str) -> str:
    """Return the name of a page, such as ``table-01`` or ``beyond-baseline``."""
    kind, _, name = label.partition(":")
    if kind == "beyond":
        return f"beyond-{name}"
    return re.sub(
        r"(\d+)", lambda m: f"{int(m[0]):02}", paper_number(label).lower().replace(" ", "-")
    )


def paper_number(label: str) -> str:
    """Return the number in the paper, such as ``Table 1``."""
    return load("printed/paper").get(label, {}).get("number", "Beyond the paper")


@cache
def catalog() -> dict[str, Entry]:
    """Return all items by name: tables, figures, and questions beyond the paper."""
    printed = load("printed/tables") | load("printed/figures")
    entries = {}
    for name, about in load("runs/items").items():
        own = {"title": printed.get(name, {}).get("title", ""), **about}
        external = load("runs/external").get(own.pop("external", ""), {})
        own |= {key: tuple(value) for key, value in own.items() if isinstance(value, list)}
        own |= {"data": external.get("data", ""), "commands": tuple(external.get("commands", ()))}
        entries[name] = Entry(name, **own)
    return entries


def _progress(jobs: Sequence[PlannedJob], left: Sequence[PlannedJob]) -> tuple[int, int]:
    """Count the runs with complete records, and all runs."""
    runs, lacking = (sum(len(job.runs) for job in own) for own in (jobs, left))
    return runs - lacking, runs


def describe(entry: Entry, progress: Mapping[str, tuple[int, int]]) -> tuple[str, str]:
    """Return the status of an item and the steps that complete it."""
    done, runs = (sum(progress[plan][i] for plan in entry.plans) for i in (0, 1))
    left = [plan for plan in entry.plans if progress[plan][0] < progress[plan][1]]
    steps = [f"resultant reproduce run {plan}" for plan in left]
    if entry.needs in ("some", "all"):
        steps.append(f"{entry.data}, see below")
    if entry.final:
        return "final", ""
    if entry.needs == "all":
        return "needs data we may not ship", ", ".join(steps)
    if entry.plans and not done:
        return "not run yet", ", ".join(steps)
    parts = [f"{done} of {runs} runs"] if left else []
    parts += ["some numbers need data we may not ship"] if entry.needs == "some" else []
    status = f"partly {entry.kind} ({'; '.join(parts)})" if parts else entry.kind
    return status, ", ".join(steps)


def overview(records: Records) -> Rows:
    """Return one row per item, under `HEADINGS`."""
    plans = {name: plan.jobs() for name, plan in PLANS.items()}
    progress = {name: _progress(jobs, missing(jobs, records)) for name, jobs in plans.items()}
    return [
        (e.name, paper_number(e.label), page_name(e.label), *describe(e, progress))
        for e in catalog().values()
    ]


def plan_rows(records: Records) -> Rows:
    """Return one row per plan, under `PLAN_HEADINGS`."""
    rows: Rows = []
    for plan in PLANS.values():
        left = missing(plan.jobs(), records)
        complete, runs = _progress(plan.jobs(), left)
        partial = sum(
            run.seed in records.seeds(job.config, run.realization, run.beta)
            for job in left
            for run in job.runs
        )
        done = f"{complete} of {runs}" + (f", {partial} in part" if partial else "")
        rest = workload(left) or "nothing"
        more = missing(plan.jobs(MORE), records) if len(plan.seeds) == 1 else []
        rest += f"; two more seeds: {workload(more)}" if more else ""
        rows.append((plan.name, plan.title, done, rest))
    return rows


def external_commands() -> Rows:
    """Return items and data that may not be shipped, each row followed by its commands."""
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for entry in catalog().values():
        if entry.data:
            names.setdefault((entry.data, entry.commands), []).append(entry.name)
    return [(f"{', '.join(who)}: {data}", *commands) for (data, commands), who in names.items()]
