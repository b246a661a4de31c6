"""``resultant analyze``: a report on frozen features."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro

from resultant._core.files import make_folder, replacing, write_text
from resultant._core.text import counted, one_line, printable
from resultant.cli import arguments
from resultant.cli.arguments import find_device, shown_default

if TYPE_CHECKING:
    from resultant.analysis.result import AnalysisResult, FeatureResult, SetComparison
    from resultant.analysis.run import Study
    from resultant.analysis.split import FeatureSet
    from resultant.cli.progress import Screen


@dataclass(frozen=True, kw_only=True)
class Analyze(arguments.FeatureOptions):
    """Analyze frozen features: recommend a classifier, and show the reasons.

    Prints a summary and writes a folder with index.html, predictions, the recommended classifier,
    rows to look at and results.json. FEATURES is a file (safetensors, npz, npy, pt, parquet, csv,
    tsv, arrow, feather or h5ad), a folder of such files, also of Hugging Face datasets, or - for a
    table on the standard input; without FEATURES, the features shipped with the package are
    analyzed. Of a file of sums, or another classifier, it says what can be known without rows: the
    size, the gain and the nearest class of each class. The labels of x.npy are read from
    x_labels.npy or labels.npy in the same folder. For the engine ray, FEATURES is a folder of
    Parquet files or a pattern, and the work runs on the cluster of RAY_ADDRESS, or on the CPUs of
    this machine.

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
    fit_fraction: Annotated[Optional[float], shown_default("FRACTION", "cross-validation")] = None
    """Fraction of the training rows to fit; the others are validation rows."""
    engine: Literal["local", "ray"] = "local"
    """Run in this process, or on Ray."""


def analyze(options: Analyze) -> None:
    """Analyze the features, print the summary as soon as it is known, and write the report."""
    from resultant.analysis.run import run
    from resultant.cli.progress import Screen

    require_engine(options)
    options.check()
    if options.path is not None and arguments.is_classifier(options.path):
        analyze_classifier(options, options.path)
        return
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(options.quiet, options.json))
        sets = read_sets(options, stack, screen)
        studies, first = run(
            sets,
            options.settings(),
            screen.step,
            summarized=lambda study: print_lines(screen, summary_lines(study.result)),
        )
        finish(options, screen, sets[0].source, studies, first)


def read_sets(options: Analyze, stack: ExitStack, screen: Screen) -> list[FeatureSet]:
    """Open the features; temporary files and a cluster end with the stack."""
    from resultant.analysis.read import ready
    from resultant.features.packaged import packaged_file
    from resultant.features.prepare import prepare

    source: Any = options.path
    name = printable(Path(source or "").name or str(source))
    if source is None:
        source = stack.enter_context(packaged_file())
        name = source.name
    elif source == arguments.STDIN:
        source, name = stack.enter_context(arguments.standard_input()), "standard input"
    elif "://" not in source:
        arguments.refuse_network(source)
    store, seed = options.open(source), options.seed
    if options.path in (None, arguments.STDIN):
        # The reader has never seen the temporary file.
        for split, origin in store.origins.items():
            store.origins[split] = replace(origin, files=len(origin.files) * (name,))
    drop, skip = options.drop_zero_rows, options.skip_unknown_classes
    if options.engine == "ray":
        from resultant.analysis import ray as ray_engine

        stack.enter_context(ray_engine.cluster())
        prepared = prepare(store, drop, skip, seed=seed, digests=ray_engine.read_digests)
        return ray_engine.cluster_sets(prepared, name, seed)
    screen.step("read and check the rows")
    prepared = prepare(store, drop, skip, seed=seed)
    return ready(prepared, name, options.fit_fraction, seed)


def analyze_classifier(options: Analyze, path: str) -> None:
    """Describe the classes of a file of sums, print the summary and write classes.csv."""
    from resultant.analysis.sums import certified_lead, describe_classes
    from resultant.analysis.write import write_csv
    from resultant.classifiers.vmf import VMFClassifier
    from resultant.cli.progress import Screen

    usual, free = Analyze().given(), ("path", "out", "json", "quiet", "device")
    for name, value in options.given().items():
        if name not in free and value != usual[name]:
            rule = f"expected no --{name.replace('_', '-')} for a classifier, which has no rows"
            raise ValueError(f"{rule}, got {path}; give the features of the rows to analyze")
    model = VMFClassifier.load(path)
    classes = describe_classes(model)
    table = options.out / "classes.csv"
    make_folder(options.out)
    with replacing(table) as temporary:
        write_csv(temporary, [*classes[0]], [[*own.values()] for own in classes])
    fewest, widest = (min(classes, key=lambda c: c[name]) for name in ("rows", "mean_length"))
    number = counted(sum(c["rows"] for c in classes), "row", "rows")
    about = f"{counted(len(classes), 'class', 'classes')}, {model.n_features_in_:,} dimensions"
    if model.metric_ is not None:
        about += f"; lengths and cosines are those of its metric, --whiten {model.whiten}"
    lines = [
        ("read", f"{path}: sums of {number}, {about}"),
        ("fewest", f"{fewest['class']}: {counted(fewest['rows'], 'row', 'rows')}"),
        ("widest", f"{widest['class']}: mean resultant length {widest['mean_length']:.3f}"),
    ]
    gains = [c["gain"] for c in classes]
    lines.append(("gains", f"{min(gains):.3g} to {max(gains):.3g} before {model.realization}"))
    lead = certified_lead(model)
    if len(classes) > 1:
        near = max(classes, key=lambda c: c["cosine"])
        text = f"{near['class']} and {near['nearest']}: cosine {near['cosine']:.3f}"
        lines.append(("nearest", text))
        text = "the exact scores of equal gains and the cosine rule may differ on any row"
        if lead < 2:
            text = (
                f"a row whose nearest class leads by a cosine of {lead:.3f} or more has this class"
            )
            text += " by the exact scores of equal gains and by the cosine rule, whatever the row"
        lines.append(("certain", text))
    lines.append(("table", printable(table)))
    text = "accuracy, wrong labels, thresholds and the share of rows with a certificate need rows: "
    text += f"resultant analyze FEATURES, or resultant predict {path} FEATURES"
    lines.append(("next", text))
    with Screen(options.quiet, options.json) as screen:
        print_lines(screen, lines)
    if options.json is not None:
        summary = {"source": path, "classes": classes, "certified_lead": lead, "table": str(table)}
        write_json(options.json, summary)


def write_json(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary to a file, or to the standard output."""
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    if str(path) == arguments.STDIN:
        sys.stdout.write(text)
    else:
        write_text(path, text)


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
        if path in (None, arguments.STDIN):
            raise ValueError("expected a path or a pattern of Parquet files with --engine ray")
    elif "://" in (path or ""):
        rule = "expected a file or a folder of features; only --engine ray reads URLs"
        raise ValueError(f"{rule}, got {path}")
    if fraction is not None and not 0 < fraction < 1:
        raise ValueError(f"expected --fit-fraction in (0, 1), got {fraction:g}")


def finish(
    options: arguments.FeatureOptions,
    screen: Screen,
    title: str,
    studies: Sequence[Study],
    chosen: int,
    comparisons: tuple[SetComparison, ...] = (),
) -> None:
    """Write the report; print the path of the page, and the JSON summary if asked for."""
    from resultant._core.device import versions
    from resultant.analysis.run import result_of
    from resultant.report.page import PAGE, write_report

    screen.step("write the report")
    about: Any = {"versions": versions(find_device(options.device)), "options": options.given()}
    result = result_of(title, studies, chosen, comparisons=comparisons, **about)
    result = write_report(options.out, result, studies, figures=options.figures)
    page = printable(options.out / PAGE)
    print_lines(screen, [*(("next", step) for step in result.first.steps), ("page", page)])
    if options.json is None:
        return
    files = {kind: printable(options.out / name) for kind, name in result.files.items()}
    summary = {**summary_dict(result), "page": page, "files": files}
    write_json(options.json, summary)


def print_lines(screen: Screen, lines: Iterable[tuple[str, str]]) -> None:
    """Print headings and texts, one per line."""
    from rich.text import Text

    for heading, text in lines:
        bold = heading in ("use", "result", "verdict")
        line = Text(f"{heading:<8}", style="bold cyan" if bold else "cyan")
        line.append(one_line(text), style="bold" if bold else "default")
        screen.results.print(line, soft_wrap=True)


def read_line(feature: FeatureResult) -> str:
    """Return what was read, in one line."""
    data = feature.data
    splits = ", ".join(f"{rows:,} {name}" for name, rows in data.splits.items())
    rows = counted(sum(data.splits.values()), "row", "rows")
    return (
        f"{data.source}, {data.name}: {rows} of {data.dim:,} dimensions, {data.classes} ({splits})"
    )


def summary_lines(feature: FeatureResult | None) -> Iterator[tuple[str, str]]:
    """Yield headings and texts: what was read, the recommendation, warnings."""
    assert feature is not None, "summarize before"
    yield "read", read_line(feature)
    first, *others = feature.recommendation.sentences
    yield "use" if feature.recommendation.key else "result", first
    for text in others:
        yield "why", text
    yield "check", f"{feature.data.metric_reason} Validation: {feature.data.validation}."
    yield from remarks(feature)


def remarks(feature: FeatureResult, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the warnings and notes of a feature set."""
    for warning in feature.data.warnings:
        yield "warning", f"{prefix}{warning.text}"
    for note in feature.data.notes:
        yield "note", f"{prefix}{note}"


def summary_dict(result: AnalysisResult) -> dict[str, Any]:
    """Return the summary as JSON types."""
    same = ("source", "dim", "splits", "metric", "metric_reason", "validation", "notes")
    kept = ("key", "name", "settings", "validation", "accuracy", "balanced", "log_loss")
    kept += ("difference",)
    whole = result.to_dict()
    features = [
        {
            **{name: feature["data"][name] for name in same},
            "features": feature["data"]["name"],
            "classes": len(feature["data"]["class_names"]),
            "recommendation": feature["recommendation"],
            "next_steps": feature["steps"],
            "methods": [{name: method[name] for name in kept} for method in feature["methods"]],
            "warnings": [warning["text"] for warning in feature["data"]["warnings"]],
            "rows": {kind: table["total"] for kind, table in feature["rows"].items()},
        }
        for feature in whole["features"]
    ]
    facts = {name: whole[name] for name in ("title", "chosen", "comparisons")}
    return {**facts, "features": features}
