"""The options of ``resultant verify`` and ``resultant reproduce``; importable without torch."""

# Optional for a fast help, as in `resultant.cli.arguments`.
# ruff: noqa: UP045

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import tyro

from resultant.cli.arguments import Data, Device, shown_default
from resultant.training.config import RESULTS

Names = tuple[str, ...]


@dataclass(frozen=True)
class Verify:
    """Check the claims of the paper numerically; print a table, write verify.json and figures.

    A claim that does not hold is shown in the table; with --strict the exit status is then 1.

    Example:
      resultant verify --only leading-gain failure-state
    """

    out: Path = Path("out/verify")
    """Folder for verify.json and the figures (PDF and PNG): new, or written by verify before."""
    only: Annotated[Names, shown_default("NAME ...", "all")] = ()
    """Names of the checks to run, as in the table."""
    figures: bool = True
    """Draw the figures."""
    strict: bool = False
    """Exit with 1 unless every claim holds."""


@dataclass(frozen=True)
class Reproduce:
    """Compare the paper's tables, figures and claims with our numbers.

    WHAT is one of: list, for an overview; names such as table-01, figure-04 or claims, to show a
    part; all, to write a page with its figure for every table and figure; run and the name of a
    plan, to train the runs of the plan that have no record yet.

    Examples:
      resultant reproduce list
      resultant reproduce run main --dry-run
    """

    what: tyro.conf.Positional[Annotated[Names, tyro.conf.arg(metavar="[WHAT ...]")]] = ("all",)
    """list, all, claims, names of tables and figures, or run and the name of a plan."""
    results: Path = RESULTS
    """Folder of your records, to which "run" appends; the default adds them to our records."""
    out: Path = Path("out/reproduce")
    """Folder for the pages and their figures."""
    text: Path = Path("REPRODUCTION.md")
    """Markdown file that "all" writes."""
    store: Annotated[Names, shown_default("NAME=PATH ...", "none")] = ()
    """Feature stores of datasets that the package does not ship."""
    records: Annotated[tuple[Path, ...], shown_default("PATH ...", "none")] = ()
    """records.jsonl of trainings on such datasets, and files written by probe --out."""
    data: Data = None
    """Folder of the datasets, for "run"."""
    work: Path = Path("out/plans")
    """Folder for networks and checkpoints, for "run"."""
    device: Device = "auto"
    """Device for "run": auto, cpu, cuda or cuda:N."""
    seeds: Annotated[tuple[int, ...], shown_default("INT ...", "all of the plan")] = ()
    """Seeds to train, for "run"."""
    jobs: Annotated[Names, shown_default("NAME ...", "all of the plan")] = ()
    """Names of the jobs to train, for "run"."""
    concurrent_jobs: int = 0
    """Number of other jobs sharing the device, for "run"."""
    minutes: Annotated[Optional[float], shown_default("FLOAT", "no limit")] = None
    """Minutes after which "run" stops at a checkpoint; the same command continues from there."""
    dry_run: bool = False
    """Print what "run" would train and how long it would take."""


@dataclass(frozen=True)
class ImportProco:
    """Convert a checkpoint of ProCo's authors to safetensors, without running any code in it.

    Example:
      resultant import-proco ckpt.pth.tar proco.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="CHECKPOINT")]]
    """The ckpt.pth.tar of the authors."""
    out: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]
    """The file to write; the name must end in .safetensors."""
