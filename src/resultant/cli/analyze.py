"""``resultant analyze``: a report on frozen features."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro

from resultant.cli.arguments import (
    STDIN,
    FeatureOptions,
    find_device,
    refuse_network,
    shown_default,
    standard_input,
)

if TYPE_CHECKING:
    from resultant.analysis.data import FeatureSet
    from resultant.cli.progress import Screen


@dataclass(frozen=True, kw_only=True)
class Analyze(FeatureOptions):
    """Analyze frozen features: recommend a classifier, and show the reasons.

    Prints a summary and writes a folder with index.html, predictions, the recommended classifier,
    rows to look at and results.json. FEATURES is a file (.safetensors, .npz, .npy, .parquet, .csv,
    .pt, .arrow or .h5ad), a folder of such files, also of Hugging Face datasets, or - for a table
    on the standard input; without FEATURES, the features shipped with the package are analyzed. The
    labels of x.npy are read from x_labels.npy or labels.npy in the same folder. For the engine ray,
    FEATURES is a folder of Parquet files or a pattern, and the work runs on the cluster of
    RAY_ADDRESS, or on the CPUs of this machine.

    Examples:
      resultant analyze features.safetensors
      resultant analyze 'features/*.parquet' --engine ray
      cat digits.csv | resultant analyze - --json -
    """

    # Not a Path: it may be a URL or a pattern.
    path: tyro.conf.Positional[
        Annotated[Optional[str], shown_default("[FEATURES]", "shipped with the package")]
    ] = None
    """Features and labels of training rows, and of test rows if you have them."""
    out: Path = Path("out/analyze")
    """Folder of the report; an earlier report is replaced, other files are left untouched."""
    fit_fraction: Annotated[Optional[float], shown_default("FRACTION", "1")] = None
    """Fraction of the training rows to fit; the others validate."""
    skip_unknown_classes: bool = False
    """Leave out validation and test rows whose class has no training row."""
    engine: Literal["local", "ray"] = "local"
    """Run in this process, or on Ray."""


def analyze(options: Analyze) -> None:
    """Analyze the features, print the summary as soon as it is known, and write the report."""
    from resultant.analysis.analyze import analyze_sets
    from resultant.cli.output import finish, print_lines, summary_lines
    from resultant.cli.progress import Screen

    require_engine(options)
    options.check()
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(options.quiet, options.json))
        sets = read_sets(options, stack, screen)
        evaluated, first = analyze_sets(
            *(sets, options.settings(), screen.step),
            summarized=lambda one: print_lines(screen, summary_lines(one.result)),
        )
        finish(options, screen, sets[0].source, evaluated, first)


def read_sets(options: Analyze, stack: ExitStack, screen: Screen) -> list[FeatureSet]:
    """Open the features; temporary files and a cluster end with the stack."""
    from resultant._core.text import printable
    from resultant.analysis.data import feature_sets
    from resultant.features.packaged import packaged_file
    from resultant.features.prepare import check_features, prepare

    source: Any = options.path
    name = printable(Path(source or "").name or str(source))
    if source is None:
        source = stack.enter_context(packaged_file())
        name = source.name
    elif source == STDIN:
        source, name = stack.enter_context(standard_input()), "standard input"
    elif "://" not in source:
        refuse_network(source)
    prepared = prepare(options.open(source), options.drop_zero_rows, options.skip_unknown_classes)
    if options.engine == "ray":
        from resultant.analysis import ray as ray_engine

        stack.enter_context(ray_engine.cluster())
        return ray_engine.cluster_sets(prepared, name)
    screen.step("read and check the rows")
    check_features(prepared)
    return feature_sets(prepared, name, options.fit_fraction)


def require_engine(options: Analyze) -> None:
    """Raise if an option does not go with the engine."""
    path, fraction = options.path, options.fit_fraction
    if options.engine == "ray":
        others = {
            "--drop-zero-rows": options.drop_zero_rows,
            "--fit-fraction": fraction is not None,
            f"--device {options.device}": find_device(options.device).type != "cpu",
        }
        for name in (name for name, given in others.items() if given):
            raise ValueError(f"expected no {name} with --engine ray, got both")
        if path in (None, STDIN):
            raise ValueError("expected a path or a pattern of Parquet files with --engine ray")
    elif "://" in (path or ""):
        rule = "expected a file or a folder of features; only --engine ray reads URLs"
        raise ValueError(f"{rule}, got {path}")
    if fraction is not None and not 0 < fraction < 1:
        raise ValueError(f"expected --fit-fraction in (0, 1), got {fraction:g}")
