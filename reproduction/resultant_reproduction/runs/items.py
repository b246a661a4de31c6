"""Overview of tables, figures and training plans, from the list of items and the records.

Nothing is computed from features and torch is not imported: `resultant reproduce list` prints this.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from resultant_reproduction.cells.cells import load
from resultant_reproduction.runs.plans import PLANS, PlannedJob, missing, workload
from resultant_reproduction.runs.records import Records

Rows = list[tuple[str, ...]]

HEADINGS = ("name", "label", "status", "to complete it")
PLAN_HEADINGS = ("plan", "trainings", "runs done", "left")

# Seeds that extend a plan of one seed.
MORE = (1, 2)


class Entry(NamedTuple):
 Module and function that compute it."""A table or figure, or a question beyond the paper, as in ``items.toml``."""

 Module and function that compute it.name: str
 Module and function that compute it.label: str
 Module and function that compute it.# Module and function that compute it.
 Module and function that compute it.by: str = ""
 Module and function that compute it.title: str = ""
 Module and function that compute it.shows: str = ""
 Module and function that compute it.# Training plans whose records it reads, and checks of `resultant verify` behind it.
 Module and function that compute it.plans: tuple[str, ...] = ()
 Module and function that compute it.checks: tuple[str, ...] = ()
 Module and function that compute it.# Caption of the figure, empty for that of the mechanism, layout of its panels, and
 Module and function that compute it.# labels and limits of those that are curves.
 Module and function that compute it.caption: str = ""
 Module and function that compute it.layout: Mapping[str, Any] = {}
 Module and function that compute it.charts: tuple[Mapping[str, Any], ...] = ()
 Module and function that compute it.# Remarks below its tables, before those of its numbers, and a sentence for numbers.
 Module and function that compute it.notes: tuple[str, ...] = ()
 Module and function that compute it.says: str = ""
 Module and function that compute it.# Source of the numbers where no training is.
 Module and function that compute it.source: str = ""
 Module and function that compute it.# Data that may not be shipped, commands for a user who has them, and the part that needs them:
 Module and function that compute it.# all, some, optional, or none if empty.
 Module and function that compute it.data: str = ""
 Module and function that compute it.commands: tuple[str, ...] = ()
 Module and function that compute it.needs: str = ""
 Module and function that compute it.# The page is kept, see `beyond`.
 Module and function that compute it.final: bool = False

 Module and function that compute it.@property
 Module and function that compute it.def kind(self) -> str:
 Module and function that compute it.    """The word for complete numbers of ours."""
 Module and function that compute it.    return "compared with our settings" if self.source.startswith("settings") else "rerun"


@cache
def catalog() -> dict[str, Entry]:
 Module and function that compute it."""Return all items by name: tables, figures, and questions beyond the paper."""
 Module and function that compute it.printed = load("printed/tables") | load("printed/figures")
 Module and function that compute it.entries = {}
 Module and function that compute it.for name, about in load("runs/items").items():
 Module and function that compute it.    own = {"title": printed.get(name, {}).get("title", ""), **about}
 Module and function that compute it.    external = load("runs/external").get(own.pop("external", ""), {})
 Module and function that compute it.    own |= {key: tuple(value) for key, value in own.items() if isinstance(value, list)}
 Module and function that compute it.    own |= {"data": external.get("data", ""), "commands": tuple(external.get("commands", ()))}
 Module and function that compute it.    entries[name] = Entry(name, **own)
 Module and function that compute it.return entries


def _progress(jobs: Sequence[PlannedJob], left: Sequence[PlannedJob]) -> tuple[int, int]:
 Module and function that compute it."""Count the runs with complete records, and all runs."""
 Module and function that compute it.runs, lacking = (sum(len(job.runs) for job in own) for own in (jobs, left))
 Module and function that compute it.return runs - lacking, runs


def describe(entry: Entry, progress: Mapping[str, tuple[int, int]]) -> tuple[str, str]:
 Module and function that compute it."""Return the status of an item and the steps that complete it."""
 Module and function that compute it.done, runs = (sum(progress[plan][i] for plan in entry.plans) for i in (0, 1))
 Module and function that compute it.left = [plan for plan in entry.plans if progress[plan][0] < progress[plan][1]]
 Module and function that compute it.steps = [f"resultant reproduce run {plan}" for plan in left]
 Module and function that compute it.if entry.needs in ("some", "all"):
 Module and function that compute it.    steps.append(f"{entry.data}, see below")
 Module and function that compute it.if entry.final:
 Module and function that compute it.    return "final", ""
 Module and function that compute it.if entry.needs == "all":
 Module and function that compute it.    return "needs data we may not ship", ", ".join(steps)
 Module and function that compute it.if entry.plans and not done:
 Module and function that compute it.    return "not run yet", ", ".join(steps)
 Module and function that compute it.parts = [f"{done} of {runs} runs"] if left else []
 Module and function that compute it.parts += ["some numbers need data we may not ship"] if entry.needs == "some" else []
 Module and function that compute it.status = f"partly {entry.kind} ({'; '.join(parts)})" if parts else entry.kind
 Module and function that compute it.return status, ", ".join(steps)


def overview(records: Records) -> Rows:
 Module and function that compute it."""Return one row per item, under `HEADINGS`."""
 Module and function that compute it.plans = {name: plan.jobs() for name, plan in PLANS.items()}
 Module and function that compute it.progress = {name: _progress(jobs, missing(jobs, records)) for name, jobs in plans.items()}
 Module and function that compute it.return [(e.name, e.label, *describe(e, progress)) for e in catalog().values()]


def plan_rows(records: Records) -> Rows:
 Module and function that compute it."""Return one row per plan, under `PLAN_HEADINGS`."""
 Module and function that compute it.rows: Rows = []
 Module and function that compute it.for plan in PLANS.values():
 Module and function that compute it.    left = missing(plan.jobs(), records)
 Module and function that compute it.    complete, runs = _progress(plan.jobs(), left)
 Module and function that compute it.    partial = sum(
 Module and function that compute it.        run.seed in records.seeds(job.config, run.realization, run.beta)
 Module and function that compute it.        for job in left
 Module and function that compute it.        for run in job.runs
 Module and function that compute it.    )
 Module and function that compute it.    done = f"{complete} of {runs}" + (f", {partial} in part" if partial else "")
 Module and function that compute it.    rest = workload(left) or "nothing"
 Module and function that compute it.    more = missing(plan.jobs(MORE), records) if len(plan.seeds) == 1 else []
 Module and function that compute it.    rest += f"; two more seeds: {workload(more)}" if more else ""
 Module and function that compute it.    rows.append((plan.name, plan.title, done, rest))
 Module and function that compute it.return rows


def external_commands() -> Rows:
 Module and function that compute it."""Return items and data that may not be shipped, each row followed by its commands."""
 Module and function that compute it.names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
 Module and function that compute it.for entry in catalog().values():
 Module and function that compute it.    if entry.data:
 Module and function that compute it.        names.setdefault((entry.data, entry.commands), []).append(entry.name)
 Module and function that compute it.return [(f"{', '.join(who)}: {data}", *commands) for (data, commands), who in names.items()]
