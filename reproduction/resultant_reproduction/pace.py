"""The time that planned jobs take, from the times of records."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression, median
from typing import NamedTuple

from resultant.training.config import CIFAR, STACK
from resultant_reproduction.plan import PlannedJob, missing
from resultant_reproduction.records import Records, dig

# Microseconds per view of photographs of 64 pixels, and seconds outside the training loop, measured
# where three jobs shared an H200.
PHOTOGRAPHS = {"resnet50": 17.0, "resnext50_32x4d": 25.5}
AROUND_PHOTOGRAPHS = 30.0


class Pace(NamedTuple):
    """Time of a CIFAR job with k runs trained together: ``each`` + ``shared`` / k microseconds per
    view, and ``around`` seconds outside the training loop, on a ``device``."""

    each: float = 2.9
    shared: float = 5.9
    around: float = 48.0
    device: str = "NVIDIA H200"

    @staticmethod
    def of(records: Records) -> Pace:
        """Fit the pace to jobs that had their device alone, on a GPU if any record is from a GPU: a
        line in 1 / k, or the default pace scaled if all jobs have one size."""
        # Records call the number of concurrent jobs "beside".
        small = (r for r in records if r["config"]["dataset"] in CIFAR)
        alone = (r for r in small if not r.get("beside"))
        timed = [(r, us) for r in alone if (us := dig(r, "us_a_view")) is not None]
        timed = [(r, us) for r, us in timed if "device" in r.get("versions", {})] or timed
        jobs = {(r.get("job_runs", 1), us): r for r, us in timed}
        spent = [(dig(r, "whole_seconds"), dig(r, "job_seconds")) for r in jobs.values()]
        around = [a - b for a, b in spent if a is not None and b is not None]
        if not jobs:
            return Pace()
        devices = dict.fromkeys(r.get("versions", {}).get("device", "CPU") for r in jobs.values())
        pace = Pace(around=median(around or [Pace().around]), device=", ".join(devices))
        shares = [1 / min(runs, STACK) for runs, _ in jobs]
        if len(set(shares)) > 1:
            shared, each = linear_regression(shares, [us for _, us in jobs])
            if shared >= 0 and each > 0:
                return pace._replace(each=each, shared=shared)
        scale = median(us / pace.microseconds(runs) for runs, us in jobs)
        return pace._replace(each=scale * pace.each, shared=scale * pace.shared)

    def microseconds(self, runs: int) -> float:
        """Return the time per view."""
        return self.each + self.shared / min(runs, STACK)

    def minutes(self, jobs: Sequence[PlannedJob]) -> float:
        """Return the time of jobs in turn."""
        return sum(map(self.seconds, jobs)) / 60

    def seconds(self, job: PlannedJob) -> float:
        """Return the time of a job; that of photographs does not depend on the records."""
        if job.config.dataset in CIFAR:
            return job.views * self.microseconds(len(job.runs)) / 1e6 + self.around
        microseconds = PHOTOGRAPHS.get(job.config.architecture, max(PHOTOGRAPHS.values()))
        return job.views * microseconds / 1e6 + AROUND_PHOTOGRAPHS

    def text(self) -> str:
        """Describe the pace."""
        return (
            f"on {self.device}: {self.each:.2g} + {self.shared:.2g} / k us per view for k runs "
            f"trained together, and {self.around:.0f} s per job outside its training loop"
        )


def minutes_text(minutes: float) -> str:
    """Format a time, at least one minute."""
    return f"{max(1, round(minutes)):,} minute{'s' if round(minutes) > 1 else ''}"


def estimate(jobs: Sequence[PlannedJob], pace: Pace) -> str:
    """Describe the number of jobs, runs and views, and their time."""
    views, runs = sum(job.views for job in jobs), sum(len(job.runs) for job in jobs)
    both = ((len(jobs), "job"), (runs, "run"))
    jobs_and_runs = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in both)
    return f"{jobs_and_runs}, {views / 1e6:,.0f} million views: {minutes_text(pace.minutes(jobs))}"


def outlook(jobs: Sequence[PlannedJob], records: Records, pace: Pace) -> list[str]:
    """Describe each job in one line: its records, and the time of the runs without records."""
    lines = []
    for job in jobs:
        left = missing([job], records)
        done = len(job.runs) - sum(len(part.runs) for part in left)
        rest = minutes_text(pace.minutes(left)) if left else "done"
        lines.append(f"{job.name}: {done} of {len(job.runs)} records, {rest}")
    return lines
