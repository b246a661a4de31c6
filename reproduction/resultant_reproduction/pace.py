"""The time that planned jobs take on an H200."""

from __future__ import annotations

from collections.abc import Sequence

from resultant.training.config import CIFAR, STACK
from resultant_reproduction.plan import PlannedJob

# Microseconds per view: of CIFAR, a part of each run and one that runs trained together share; of
# photographs of 64 pixels, by network. Seconds outside the training loop, per job.
EACH, SHARED, AROUND = 2.9, 5.9, 48.0
PHOTOGRAPHS, AROUND_PHOTOGRAPHS = {"resnet50": 17.0, "resnext50_32x4d": 25.5}, 30.0
MEASURED = (
    f"Times are those of an H200: {EACH:g} + {SHARED:g} / k us per view for k runs of CIFAR "
    f"trained together, and {AROUND:.0f} s per job outside its training loop; photographs take, in "
    f"us per view, {', '.join(f'{name} {us:g}' for name, us in PHOTOGRAPHS.items())}, and "
    f"{AROUND_PHOTOGRAPHS:.0f} s per job."
)


def seconds(job: PlannedJob) -> float:
    """Return the time of a job."""
    if job.config.dataset in CIFAR:
        return job.views * (EACH + SHARED / min(len(job.runs), STACK)) / 1e6 + AROUND
    microseconds = PHOTOGRAPHS.get(job.config.architecture, max(PHOTOGRAPHS.values()))
    return job.views * microseconds / 1e6 + AROUND_PHOTOGRAPHS


def minutes(jobs: Sequence[PlannedJob]) -> str:
    """Format the time of jobs in turn, at least one minute."""
    number = max(1, round(sum(map(seconds, jobs)) / 60))
    return f"{number:,} minute{'s' if number > 1 else ''}"


def estimate(jobs: Sequence[PlannedJob]) -> str:
    """Describe the number of jobs, runs and views, and their time."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    both = ((len(jobs), "job"), (runs, "run"))
    jobs_and_runs = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in both)
    return f"{jobs_and_runs}, {views / 1e6:,.0f} million views: {minutes(jobs)}"
