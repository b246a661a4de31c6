"""Options of features, which analyze and compare share."""

# Optional for a fast help, as in `resultant.cli.arguments`.
# ruff: noqa: UP045

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from resultant.cli.arguments import (
    Device,
    Estimator,
    Features,
    Labels,
    require_temperature,
    shown_default,
)

if TYPE_CHECKING:
    from resultant.classifiers.reference_process import ReferenceProcess
    from resultant.features.store import FeatureStore


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The features, their rules, and the report."""

    out: Path
    """Folder of the report; an earlier report is replaced."""
    features: Features = None
    """Array or column of the features."""
    labels: Labels = None
    """Array or column of the labels; for features in a .npy file, another .npy file."""
    identities: Labels = None
    """Array or column that identifies each row by an integer or a string."""
    temperature: Annotated[Optional[float], shown_default("TAU", "chosen")] = None
    """Temperature tau of the scores; by default chosen without the held-out rows."""
    references: Literal["none", "fast", "all"] = "fast"
    """Classifiers of scikit-learn to compare with; fast fits some of them to fewer rows."""
    calibration: Literal["scale", "sigmoid", "isotonic"] = "scale"
    """Calibration of probabilities: a factor of the scores, or also a function per class."""
    estimator: Estimator = "mle"
    """Estimator of the concentrations kappa from the lengths of the class means."""
    drop_zero_rows: bool = False
    """Leave out rows that are zero vectors, which have no direction."""
    figures: bool = False
    """Also write each figure as PDF and PNG."""
    device: Device = "cpu"
    """cpu, cuda, cuda:N or auto."""

    def check(self) -> None:
        """Raise if the report cannot be written, or the temperature is out of range: before the
        features are read, which may take long."""
        from resultant.report import page

        page.require(self.figures)
        page.require_report_folder(self.out)
        if self.temperature is not None:
            require_temperature(self.temperature)

    def start_fits(self) -> AbstractContextManager[ReferenceProcess | None]:
        """Start the process that fits the references: it loads scikit-learn while this one loads
        torch."""
        if self.references == "none":
            return nullcontext()
        from resultant.classifiers.reference_process import ReferenceProcess

        return ReferenceProcess()

    def open(self, path: Any) -> FeatureStore:
        """Open the features of a path."""
        from resultant.features.store import FeatureStore

        return FeatureStore.open(
            path, features=self.features, labels=self.labels, identities=self.identities
        )

    def code(self, path: str | None, **prepared: bool) -> str:
        """Return the lines that open a path, for the snippet of the advice."""
        from resultant.analysis.snippet import store_code

        prepared = {"drop_zeros": self.drop_zero_rows, **prepared}
        return store_code(path, features=self.features, labels=self.labels, prepared=prepared)


def load_analysis() -> None:
    """Import the modules of an analysis."""
    from resultant._core.preload import preload

    # Threads that wait must leave the cores to others; and memory that is freed is used again in a
    # moment: to give it back to the system after 10 ms takes a tenth of the time (allocator of
    # torch on some systems, in ms).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "1000")
    # Devices of other packages, which no command takes.
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    preload(("resultant.cli._analysis", "resultant.cli._store"))
