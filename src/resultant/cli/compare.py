"""``resultant compare``: two feature sets or networks side by side, and a report on them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor

from resultant._core.files import replacing_folder
from resultant._core.network_files import find_network
from resultant._core.text import printable
from resultant.analysis import Analysis, FrozenSpace, decide
from resultant.cli.analyze import (
    about,
    analyzed,
    require_room,
    tell,
)
from resultant.cli.arguments import data_root, find_device
from resultant.cli.options import Compare
from resultant.cli.progress import Steps, terminal
from resultant.features.prepare import Prepared, check_features, prepare
from resultant.features.selection import WORDS
from resultant.features.store import FeatureStore
from resultant.images.cifar import Cifar
from resultant.report import comparison, page
from resultant.score.limits import require_temperature
from resultant.training.extract import (
    FEATURES,
    Loaded,
    extract,
    load_data,
    load_network,
    require_images,
)
from resultant.training.image_sets import ListedImages

# A network, and the images that it is asked about.
Asked = tuple[Loaded, Cifar | ListedImages]


def compare(options: Compare) -> None:
    """Compare the two, write the page of it, and tell its facts."""
    page.require()
    page.require_place(options.out)
    where = 1, torch.device("cpu"), True
    require_temperature(options.temperature, *where, dtype=torch.float32, name="--temperature")
    a, b, features = options.a, options.b, options.features
    place, aside, given = find_device(options.device), terminal(stderr=True), (a, b)
    networks = _networks(given, options.data, options.lists, options.images)
    both = {
        i: prepare(
            FeatureStore.open(path, features=features, labels=options.labels),
            options.drop_zero_rows,
        )
        for i, path in enumerate(given)
        if i not in networks
    }
    names = _alike(given, networks, both, features)
    chosen = [tuple(pair[i] for pair in names.values()) for i in (0, 1)]
    both = {i: replace(each, features=chosen[i]) for i, each in both.items()}
    require_room(aside, *both.values())
    with ExitStack() as stack:
        steps = 2 * (1 + len(names) * (len(comparison.QUESTIONS) + 2)) + len(networks) + 1
        watch = stack.enter_context(Steps(aside, steps))
        spare = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for i, (loaded, shown) in networks.items():
            file, step = spare / f"{i}.safetensors", watch.of(comparison.SIDES[i])
            extract(
                *(loaded, shown, file),
                device=place,
                progress=lambda done, of, step=step: step("features", done / of),
            )
            store = FeatureStore.open(file, features=features)
            store.where = printable(given[i])
            both[i] = replace(prepare(store), features=chosen[i])
        for i, side in enumerate(comparison.SIDES):
            check_features(both[i], watch.of(side))
        sides = []
        for i, side in enumerate(comparison.SIDES):
            asked, step = comparison.QUESTIONS, watch.of(side)
            rule = options.temperature, options.estimator
            sides.append(analyzed(both[i], asked, *rule, step, device=place))
        same, pairs, verdicts = same_rows(both[0], both[1]), {}, {}
        for name, pair in names.items():
            answers = [side[feature] for side, feature in zip(sides, pair, strict=True)]
            right = (_right(space, analysis) for space, analysis in answers)
            pairs[name] = answers[0][1], answers[1][1]
            verdicts[name] = comparison.verdict(*right, same_rows=same)
        notes = [f"{s}: {n}" for i, s in enumerate(comparison.SIDES) for n in both[i].notes]
        facts = {"A": about(both[0], place), "B": about(both[1], place)}
        wheres = (a.name, b.name) if a.name != b.name else (str(a), str(b))
        wheres = [printable(where) for where in wheres]
        made = comparison.comparison_page(pairs, verdicts, wheres, notes, facts)
        folder = stack.enter_context(replacing_folder(options.out))
        page.write_page(folder, made, watch)
    tell(Console(), made, options.out)


def paired(features: Sequence[Sequence[str]], paths: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """The features to compare by name: those called alike, or the only ones."""
    a, b = features
    same = {name: (name, name) for name in a if name in b}
    if not same and len(a) == len(b) == 1:
        same = {a[0] if a == b else f"{a[0]}, {b[0]}": (a[0], b[0])}
    if not same:
        got = f"{', '.join(a)} in {paths[0]} and {', '.join(b)} in {paths[1]}"
        raise ValueError(f"expected features of one name in both, got {got}")
    return same


def same_rows(a: Prepared, b: Prepared) -> bool:
    """Whether both hold out the same rows, as far as labels, and identities if any, tell."""
    if a.zeros.keys() != b.zeros.keys() or any(
        not torch.equal(a.zeros[split], b.zeros[split]) for split in a.zeros
    ):
        return False
    for what in ("labels", "identities"):
        names = f"{a.test}/{what}", f"{b.test}/{what}"
        known = names[0] in a.store and names[1] in b.store
        if known and not torch.equal(a.store[names[0]], b.store[names[1]]):
            return False
    return True


def _networks(
    given: Sequence[Path], data: Path | None, lists: Path | None, images: Path | None
) -> dict[int, Asked]:
    """Those of the two that are networks, each with the images that it is asked about."""
    files = {i: find_network(path) for i, path in enumerate(given)}
    loaded = {i: load_network(file) for i, file in files.items() if file is not None}
    found: dict[int, Asked] = {}
    known: dict[str, Cifar | ListedImages] = {}
    for i, network in loaded.items():
        dataset, root = network.config.dataset, data_root(data)
        if dataset not in known:
            known[dataset] = load_data(dataset, lists or root, images or root)
        require_images(network, known[dataset])
        found[i] = network, known[dataset]
    return found


def _alike(
    given: Sequence[Path],
    networks: Mapping[int, Asked],
    stores: Mapping[int, Prepared],
    features: str | None,
) -> dict[str, tuple[str, str]]:
    """The features to compare; raise unless both are of one data set, as far as they tell."""
    names, facts = [], []
    for i in range(len(given)):
        if i in networks:
            network = networks[i][0]
            names.append(tuple(name for name in FEATURES if features in (None, name)))
            facts.append((network.config.dataset, network.num_classes))
        else:
            store = stores[i].store
            names.append(stores[i].features)
            facts.append((store.metadata.get("dataset"), store.num_classes))
    for what, of in zip(("data set", "number of classes"), zip(*facts, strict=True), strict=True):
        if None not in of and of[0] != of[1]:
            got = f"{of[0]} in {given[0]} and {of[1]} in {given[1]}"
            raise ValueError(f"expected one {what} in both, got {got}")
    _require_same_classes(given, stores)
    return paired(names, given)


def _require_same_classes(given: Sequence[Path], stores: Mapping[int, Prepared]) -> None:
    """Raise where both have names of their classes, or both only labels, and these differ; or where
    one has labels and the other's are words, which are numbered by their order."""
    if len(stores) < 2:
        return
    both = [stores[i] for i in (0, 1)]
    only_labels = [all(map(str.isdecimal, each.names)) for each in both]
    words = any(each.store.metadata.get("labels") == WORDS for each in both)
    if len(set(only_labels)) == 1 or words:
        for c, (of_a, of_b) in enumerate(zip(both[0].names, both[1].names, strict=True)):
            if of_a != of_b:
                got = f"{of_a!r} in {given[0]} and {of_b!r} in {given[1]}"
                raise ValueError(
                    f"expected the same classes in both, but class {c} is called {got}"
                )


def _right(space: FrozenSpace, analysis: Analysis) -> Tensor:
    """Which held-out rows the recommended rule gets right, [M] bool."""
    rule = comparison.recommended(analysis)
    return decide(space, [rule]).right(rule).cpu()
