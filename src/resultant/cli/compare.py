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
from resultant.cli.feature_options import FeatureOptions, load_analysis
from resultant.cli.image_options import ImageOptions

if TYPE_CHECKING:
    from torch import Tensor

    from resultant.analysis import Analysis, FrozenSpace
    from resultant.classifiers.reference_process import ReferenceProcess
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
    """Folder of the report; an earlier report is replaced."""
    image_set: ImageOptions = field(default_factory=ImageOptions)
    """The images, for networks."""


def compare(options: Compare) -> None:
    """Compare both sides, write the report and print its summary."""
    with options.start_fits() as fits:
        load_analysis()
        _compare(options, fits)


def _compare(options: Compare, fits: ReferenceProcess | None) -> None:
    from resultant._core.files import replacing_folder
    from resultant._core.text import printable
    from resultant.cli._analysis import (
        explore,
        page_sides,
        print_summary,
        provenance,
    )
    from resultant.cli._store import analyze_store
    from resultant.cli.progress import StepProgress, open_console
    from resultant.features.prepare import check_features, prepare
    from resultant.report import comparison_page, page
    from resultant.report.comparison import SIDES, verdict
    from resultant.report.words import settings

    options.check()
    paths, sides = (options.a, options.b), SIDES
    device, log = find_device(options.device), open_console(stderr=True)
    networks = _open_networks(options)
    stores = {
        i: prepare(options.open(path), options.drop_zero_rows)
        for i, path in enumerate(paths)
        if i not in networks
    }
    names = _match(paths, networks, stores, options.features)
    chosen = [tuple(pair[i] for pair in names.values()) for i in (0, 1)]
    stores = {i: replace(store, features=chosen[i]) for i, store in stores.items()}
    with ExitStack() as stack:
        questions = comparison_page.QUESTIONS
        steps = 2 * (1 + len(names) * (len(questions) + 3)) + len(networks) + 1
        progress = stack.enter_context(StepProgress(log, steps))
        extracted = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for i, network in networks.items():
            step = progress.labelled(sides[i])
            store = network.write(
                extracted / f"{i}.safetensors",
                device,
                lambda done, total, step=step: step("features", done / total),
            )
            store.where = printable(paths[i])
            stores[i] = replace(prepare(store), features=chosen[i])
        for i, side in enumerate(sides):
            check_features(stores[i], progress.labelled(side))
        results = [
            analyze_store(
                stores[i],
                questions,
                progress.labelled(side),
                temperature=options.temperature,
                estimator=options.estimator,
                device=device,
                references=options.references,
                fits=fits,
                calibration=options.calibration,
                # Both sides are decided again by rules of the grid, which has no mixtures.
                mixtures=False,
                opened=None if i in networks else options.code(str(paths[i])),
            )
            for i, side in enumerate(sides)
        ]
        order, pairs, verdicts = matched_rows(stores[0], stores[1]), {}, {}
        for name, pair in names.items():
            answers = [side[feature] for side, feature in zip(results, pair, strict=True)]
            correct = [_correct(space, analysis) for space, analysis in answers]
            if order is not None:
                correct = [a[rows] for a, rows in zip(correct, order, strict=True)]
            verdicts[name] = verdict(*correct, same_rows=order is not None)
            # The same rules and settings on both sides.
            rules = [settings(analysis) for _, analysis in answers]
            own = (
                page_sides({side: answer}, {side: explore(*answer, progress, rules)})[side]
                for side, answer in zip(sides, answers, strict=True)
            )
            a, b = (replace(side, name=name) for side, name in zip(own, sides, strict=True))
            pairs[name] = a, b
        report = comparison_page.comparison_page(
            pairs,
            verdicts,
            [printable(p.name if options.a.name != options.b.name else p) for p in paths],
            stores[0].names,
            [f"{side}: {note}" for i, side in enumerate(sides) for note in stores[i].notes],
            {side: provenance(stores[i], device) for i, side in enumerate(sides)},
        )
        folder = stack.enter_context(replacing_folder(options.out))
        page.write_page(folder, report, progress, figure_files=options.figures)
    print_summary(report, options.out)


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


def matched_rows(a: Prepared, b: Prepared) -> tuple[Tensor, Tensor] | None:
    """Return the order of the held-out rows of both sides that pairs them, by their identities.

    Equal labels do not show that rows are the same: without identities in both files, rows are not
    paired. Rows in another order are paired if each identity occurs once.
    """
    from resultant.features.identities import match_rows

    names = f"{a.test}/identities", f"{b.test}/identities"
    if names[0] not in a.store or names[1] not in b.store:
        return None
    match = match_rows(a.store[names[0]], b.store[names[1]])
    return (match.a, match.b) if match.kind in ("same", "reordered") else None


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


def _correct(space: FrozenSpace, analysis: Analysis) -> Tensor:
    """Return which held-out rows the recommended rule classifies correctly, [M] bool."""
    from resultant.analysis import decide
    from resultant.report.comparison import recommended

    rule = recommended(analysis)
    return decide(space, [rule]).right(rule).cpu()
