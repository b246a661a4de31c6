"""Options of features, which analyze and compare share."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from resultant.cli.arguments import Device, Estimator, Features, Labels, find_device, shown_default

if TYPE_CHECKING:
    from resultant.analysis.analyze import Settings
    from resultant.features.store import FeatureStore

# The path that stands for the standard input, and its file formats by their first bytes.
STDIN = "-"
MAGIC = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"PK\x03\x04": ".npz",
    b"\x93NUMPY": ".npy",
    b"\x89HDF": ".h5ad",
}


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The features, their classifiers, and the report."""

    out: Path
    """Folder of the report; an earlier report is replaced, other files are left untouched."""
    features: Features = None
    """Array or column of the features."""
    labels: Labels = None
    """Array or column of the labels; for features in a .npy file, another .npy file."""
    identities: Labels = None
    """Array or column that identifies each row by an integer or a string."""
    temperature: Annotated[Optional[float], shown_default("TAU", "chosen")] = None
    """Temperature tau of the scores; by default chosen on the validation rows."""
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
    json: Annotated[Optional[Path], shown_default("PATH", "none")] = None
    """File for the summary as JSON; - prints it instead of the text."""
    quiet: bool = False
    """Print errors alone."""

    def check(self) -> None:
        """Raise if the report cannot be written, or the scores are not defined at --temperature:
        before the features are read, which may take long."""
        import torch

        from resultant.report.folder import require_report_folder
        from resultant.score.limits import require_temperature

        require_report_folder(self.out)
        if self.temperature is not None:
            where = self.temperature, 1, torch.device("cpu"), True
            require_temperature(*where, dtype=torch.float32, name="--temperature")

    def open(self, path: Any) -> FeatureStore:
        """Open the features of a path."""
        from resultant.features.store import FeatureStore

        return FeatureStore.open(
            path, features=self.features, labels=self.labels, identities=self.identities
        )

    def settings(self) -> Settings:
        """Return the options of the analysis."""
        from resultant.analysis.analyze import Settings

        chosen = self.estimator, self.temperature, self.references, self.calibration
        return Settings(*chosen, device=find_device(self.device))

    def given(self) -> dict[str, Any]:
        """Return the options as JSON types."""
        kinds = (str, int, float, bool, type(None))
        return {k: v if isinstance(v, kinds) else str(v) for k, v in vars(self).items()}


@contextmanager
def standard_input() -> Iterator[Path]:
    """Copy the standard input to a temporary file, whose suffix names its format."""
    data = sys.stdin.buffer.read()
    if not data:
        raise ValueError("expected a table on the standard input, got nothing")
    suffix = next((suffix for magic, suffix in MAGIC.items() if data.startswith(magic)), ".csv")
    if suffix == ".csv" and b"\t" in data.split(b"\n", 1)[0]:
        suffix = ".tsv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"stdin{suffix}"
        path.write_bytes(data)
        yield path
