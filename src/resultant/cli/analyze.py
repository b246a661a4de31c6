"""``resultant analyze``: a report on frozen features."""

# Optional for a fast help, as in `resultant.cli.arguments`.
# ruff: noqa: UP045

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Optional

import tyro

from resultant.cli.arguments import find_device, refuse_network, shown_default
from resultant.cli.feature_options import FeatureOptions, load_analysis

if TYPE_CHECKING:
    from resultant.classifiers.reference_process import ReferenceProcess


@dataclass(frozen=True, kw_only=True)
class Analyze(FeatureOptions):
    """Analyze frozen features: recommend a classification rule, and show the reasons.

    Prints a summary and writes a folder with index.html, results.json and tables. FEATURES is a
    file (.safetensors, .npz, .npy, .parquet, .csv, .pt, .arrow or .h5ad) or a folder of such files,
    also of Hugging Face datasets; without FEATURES, the features shipped with the package are
    analyzed. The labels of x.npy are read from x_labels.npy or labels.npy in the same folder. For
    the engine ray, FEATURES is a folder of Parquet files or a pattern, and the work runs on the
    cluster of RAY_ADDRESS, or on the CPUs of this machine.

    Examples:
      resultant analyze features.safetensors
      resultant analyze 'features/*.parquet' --engine ray
    """

    RENAMED: ClassVar[dict[str, str]] = {"--fitting-share": "--fit-fraction"}

    # Not a Path: it may be a URL or a pattern.
    path: tyro.conf.Positional[
        Annotated[Optional[str], shown_default("[FEATURES]", "shipped with the package")]
    ] = None
    """Features and labels of training rows, and of held-out rows if you have them."""
    out: Path = Path("out/analyze")
    """Folder of the report; an earlier report is replaced."""
    fit_fraction: Annotated[Optional[float], shown_default("FRACTION", "1")] = None
    """Fraction of the training rows to fit; losses and gradients are compared on the others."""
    skip_unknown_classes: bool = False
    """Leave out validation and test rows whose class has no training row."""
    engine: Literal["local", "ray"] = "local"
    """Run in this process, or on Ray."""


def analyze(options: Analyze) -> None:
    """Analyze the features, write the report and print its summary."""
    with options.start_fits() as fits:
        load_analysis()
        _analyze(options, fits)


def _analyze(options: Analyze, fits: ReferenceProcess | None) -> None:
    from resultant._core.files import replacing_folder
    from resultant._core.text import printable
    from resultant.analysis import QUESTIONS, Analysis, FrozenSpace
    from resultant.analysis import ray as ray_engine
    from resultant.analysis.response import Response
    from resultant.cli._analysis import (
        explore,
        held_out_notes,
        page_sides,
        print_facts,
        print_rest,
        provenance,
    )
    from resultant.cli._store import analyze_store
    from resultant.cli.progress import StepProgress, open_console
    from resultant.features.packaged import packaged_file
    from resultant.features.partition import open_store
    from resultant.features.prepare import check_features, prepare
    from resultant.report import page
    from resultant.report.analysis_page import analysis_page
    from resultant.report.summary import advice_facts, foremost, measured_facts, rules_fact

    options.check()
    device, log = find_device(options.device), open_console(stderr=True)
    on_ray = options.engine == "ray"
    _require_engine(options, device.type)
    with ExitStack() as stack:
        source = options.path or stack.enter_context(packaged_file())
        if "://" not in str(source):
            refuse_network(source)
        elif not on_ray:
            rule = "expected a file or a folder of features; only --engine ray reads URLs"
            raise ValueError(f"{rule}, got {source}")
        if on_ray:
            names = options.features, options.labels, options.identities
            prepared = prepare(open_store(source, *names))
            stack.enter_context(ray_engine.cluster())
        else:
            prepared = prepare(
                options.open(source), options.drop_zero_rows, options.skip_unknown_classes
            )
        steps = len(prepared.features) * (len(QUESTIONS) + 2) + 2 + (not on_ray)
        progress = stack.enter_context(StepProgress(log, steps))
        if not on_ray:
            check_features(prepared, progress)
        where = printable(os.path.basename(os.path.abspath(source)))

        moved: dict[str, Response] = {}

        def move(analyses: dict[str, Analysis], spaces: dict[str, FrozenSpace]) -> None:
            name = foremost({name: analyses[name] for name in spaces})
            if name not in moved:
                moved[name] = explore(spaces[name], analyses[name], progress)
                page.page_template()

        measured: list[tuple[str, str]] = []

        def print_first(
            analyses: dict[str, Analysis], spaces: dict[str, FrozenSpace]
        ) -> Callable[[], object]:
            measured.extend([*measured_facts(analyses, where), *rules_fact(analyses)])
            print_facts(measured)
            return partial(move, analyses, spaces)

        def print_advice(analyses: dict[str, Analysis], spaces: dict[str, FrozenSpace]) -> None:
            rest = [] if measured else measured_facts(analyses, where)
            print_facts([*advice_facts(analyses), *rest])
            move(analyses, spaces)

        results = analyze_store(
            prepared,
            QUESTIONS,
            progress,
            temperature=options.temperature,
            estimator=options.estimator,
            engine=options.engine,
            device=device,
            fit_fraction=options.fit_fraction,
            references=options.references,
            fits=fits,
            calibration=options.calibration,
            opened=options.code(options.path, skip_unknown=options.skip_unknown_classes),
            first=print_first,
            then=print_advice,
        )
        if fits is not None:
            # It ends while the page is written.
            fits.kill()
        analyses = {name: analysis for name, (_, analysis) in results.items()}
        report = analysis_page(
            analyses,
            where,
            prepared.names,
            (*prepared.notes, *held_out_notes(analyses, foremost(analyses))),
            provenance(prepared, device),
            page_sides(results, moved),
        )
        folder = stack.enter_context(replacing_folder(options.out))
        page.write_page(folder, report, progress, figure_files=options.figures)
    if not moved:
        print_facts(report.facts)
    print_rest(report, options.out)


def _require_engine(options: Analyze, device: str) -> None:
    """Raise if an option does not go with the engine."""
    on_ray, fraction = options.engine == "ray", options.fit_fraction
    if on_ray and device != "cpu":
        raise ValueError(f"expected --device cpu with --engine ray, got {options.device}")
    if on_ray and options.drop_zero_rows:
        raise ValueError("expected no --drop-zero-rows with --engine ray, got both")
    if fraction is not None and (on_ray or not 0 < fraction < 1):
        rule = "expected --fit-fraction in (0, 1), and none with --engine ray"
        raise ValueError(f"{rule}, got {fraction:g} with --engine {options.engine}")
