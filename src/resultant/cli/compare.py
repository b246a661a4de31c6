"""``resultant compare``: a report on two feature sets or networks."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from resultant.cli.arguments import find_device
from resultant.cli.feature_options import FeatureOptions
from resultant.cli.image_options import ImageOptions

if TYPE_CHECKING:
    from resultant.cli.progress import Screen
    from resultant.features.prepare import Prepared
    from resultant.training.extract import NetworkFeatures


@dataclass(frozen=True, kw_only=True)
class Compare(FeatureOptions):
    """Compare two feature sets or two trained networks, and report which is better.

    Features with the same name are compared, or the only features of each side. The features of a
    network are extracted first. A network is RUN.safetensors of a training, the folder of a
    training with a single network, the output of import-proco, or checkpoint.safetensors:RUN of an
    unfinished training.

    Example:
      resultant compare before.safetensors after.safetensors
    """

    a: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="A")]]
    """Features, as for analyze, or a trained network."""
    b: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="B")]]
    """Features or a network, as for A."""
    out: Path = Path("out/compare")
    """Folder of the report; an earlier report is replaced, other files are left untouched."""
    image_set: ImageOptions = field(default_factory=ImageOptions)
    """The images, for networks."""


def compare(options: Compare) -> None:
    """Compare both sides, write the report and print its summary."""
    from resultant.cli.progress import Screen

    options.check()
    with ExitStack() as stack:
        screen = stack.enter_context(Screen(options.quiet, options.json))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores, names = read_sides(options, folder, screen)
        report_sides(options, stores, names, screen)


def read_sides(
    options: Compare, folder: Path, screen: Screen
) -> tuple[dict[int, Prepared], dict[str, tuple[str, str]]]:
    """Open both sides; features of networks are extracted into a folder.

    Returns:
        The prepared stores of A and B, and the features to compare.
    """
    from resultant._core.text import printable
    from resultant.features.prepare import check_features, prepare

    paths, device = (options.a, options.b), find_device(options.device)
    networks = _open_networks(options)
    stores = {
        i: prepare(options.open(path), options.drop_zero_rows)
        for i, path in enumerate(paths)
        if i not in networks
    }
    names = _match(paths, networks, stores, options.features)
    for i, network in networks.items():
        step = f"extract features of {printable(paths[i])}"
        path = folder / f"{i}.safetensors"
        store = network.write(path, device, lambda *_, step=step: screen.step(step))
        store.where = printable(paths[i])
        stores[i] = prepare(store)
    for i in (0, 1):
        chosen = tuple(pair[i] for pair in names.values())
        stores[i] = replace(stores[i], features=chosen)
        check_features(stores[i], lambda *_: screen.step("read and check the rows"))
    return stores, names


def report_sides(
    options: Compare,
    stores: Mapping[int, Prepared],
    names: Mapping[str, tuple[str, str]],
    screen: Screen,
) -> None:
    """Analyze both sides, compare them, write the report and print its summary."""
    from resultant._core.text import printable
    from resultant._core.versions import versions
    from resultant.analysis.analyze import analyze_sets
    from resultant.analysis.comparison import compare_sets
    from resultant.analysis.data import feature_sets
    from resultant.analysis.result import AnalysisResult
    from resultant.cli.output import (
        print_lines,
        read_line,
        summary_dict,
        write_json,
    )
    from resultant.report.folder import write_report

    paths = options.a, options.b
    short = options.a.name != options.b.name
    titles = [printable(path.name if short else path) for path in paths]
    evaluated, chosen = [], []
    for i, side in enumerate("AB"):
        sets = feature_sets(stores[i], f"{side}: {titles[i]}")
        some, first = analyze_sets(
            sets, options.settings(), lambda text, side=side: screen.step(f"{side}: {text}")
        )
        chosen.append(len(evaluated) + first)
        evaluated += some
    half = len(names)
    comparisons = tuple(compare_sets(evaluated, i, half + i) for i in range(half))
    # The pair whose first side is used decides.
    decided = comparisons[chosen[0]]
    result = AnalysisResult(
        title=" and ".join(titles),
        features=tuple(one.result for one in evaluated),
        chosen=chosen[decided.difference.verdict == "better"],
        comparisons=comparisons,
        versions=versions(find_device(options.device)),
        options=options.given(),
    )
    screen.step("write the report")
    result = write_report(options.out, result, evaluated, figures=options.figures)
    lines = [("read", read_line(evaluated[i].result)) for i in chosen]
    lines += [
        ("verdict", c.sentence if half == 1 else f"{name}: {c.sentence}")
        for name, c in zip(names, comparisons, strict=True)
    ]
    for i, side in zip(chosen, "AB", strict=True):
        data = evaluated[i].result.data
        lines += [("warning", f"{side}: {w.text}") for w in data.warnings]
        lines += [("note", f"{side}: {note}") for note in data.notes]
    lines.append(("page", printable(options.out / "index.html")))
    print_lines(screen.results, iter(lines))
    if options.json is not None:
        write_json(options.json, summary_dict(result, options.out))


def match_names(
    features: Sequence[Sequence[str]], paths: Sequence[Path]
) -> dict[str, tuple[str, str]]:
    """Return the features to compare: those with the same name, or the only ones."""
    a, b = features
    same = {name: (name, name) for name in a if name in b}
    if not same and len(a) == len(b) == 1:
        same = {f"{a[0]}, {b[0]}": (a[0], b[0])}
    if not same:
        got = f"{', '.join(a)} in {paths[0]} and {', '.join(b)} in {paths[1]}"
        raise ValueError(f"expected features of one name in both, got {got}")
    return same


def _open_networks(options: Compare) -> dict[int, NetworkFeatures]:
    """Open the sides that are networks, with the images to extract features of."""
    from resultant._core.network_files import find_network

    sides = {i: find_network(path) for i, path in enumerate((options.a, options.b))}
    files = {i: file for i, file in sides.items() if file is not None}
    if not files:
        return {}
    from resultant.training.extract import open_networks

    return open_networks(files, options.image_set.root, **options.image_set.arguments())


def _match(
    paths: Sequence[Path],
    networks: Mapping[int, NetworkFeatures],
    stores: Mapping[int, Prepared],
    features: str | None,
) -> dict[str, tuple[str, str]]:
    """Return the features to compare; raise if the sides are known to have different datasets or
    classes."""
    names, facts = [], []
    for i in range(len(paths)):
        if i in networks:
            from resultant.training.extract import FEATURES

            names.append(tuple(name for name in FEATURES if features in (None, name)))
            facts.append((networks[i].dataset, networks[i].num_classes))
        else:
            store = stores[i].store
            names.append(stores[i].features)
            facts.append((store.metadata.get("dataset"), store.num_classes))
    for noun, values in zip(
        ("dataset", "number of classes"), zip(*facts, strict=True), strict=True
    ):
        if None not in values and values[0] != values[1]:
            got = f"{values[0]} in {paths[0]} and {values[1]} in {paths[1]}"
            raise ValueError(f"expected one {noun} in both, got {got}")
    _require_same_classes(paths, stores)
    return match_names(names, paths)


def _require_same_classes(paths: Sequence[Path], stores: Mapping[int, Prepared]) -> None:
    """Raise if the classes of two stores differ.

    The classes are compared by name if both sides have names, or if both have only labels. A side
    whose labels are words numbers them by their order, so words are compared with labels too.
    """
    from resultant.features.selection import WORDS

    if len(stores) < 2:
        return
    both = [stores[i] for i in (0, 1)]
    only_labels = [all(map(str.isdecimal, store.names)) for store in both]
    words = any(store.store.metadata.get("labels") == WORDS for store in both)
    if len(set(only_labels)) == 1 or words:
        for c, (in_a, in_b) in enumerate(zip(both[0].names, both[1].names, strict=True)):
            if in_a != in_b:
                got = f"{in_a!r} in {paths[0]} and {in_b!r} in {paths[1]}"
                raise ValueError(
                    f"expected the same classes in both, but class {c} is called {got}"
                )
