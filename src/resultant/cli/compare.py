"""``resultant compare``: a report on two feature sets or networks."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from resultant._core.text import printable
from resultant.cli.analyze import finish, print_lines, read_line, remarks
from resultant.cli.arguments import FeatureOptions, ImageOptions, find_device, refuse_classifier

if TYPE_CHECKING:
    from resultant.cli.progress import Screen
    from resultant.features.prepare import Prepared
    from resultant.images.source import ImageSplits
    from resultant.training.checkpoints import LoadedNetwork


@dataclass(frozen=True, kw_only=True)
class Compare(FeatureOptions):
    """Compare two feature sets or two trained networks, and report which is better.

    Features with the same name are compared, or the only features of each side. The features of a
    network are extracted first. A network is RUN.safetensors of a training, the folder of a
    training with a single network, or checkpoint.safetensors:RUN of an unfinished training.

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
    from resultant.analysis.compare import compare_stores
    from resultant.analysis.run import explain
    from resultant.cli.progress import Screen

    options.check()
    short = options.a.name != options.b.name
    titles = [printable(path.name if short else path) for path in (options.a, options.b)]
    with Screen(options.quiet, options.json) as screen, tempfile.TemporaryDirectory() as folder:
        stores, names = read_sides(options, Path(folder), screen)
        studies, comparisons, chosen = compare_stores(
            stores, titles, options.settings(), options.seed, screen.step
        )
        pairs = len(comparisons)
        # The pair whose first side is used decides.
        decided = comparisons[chosen[0]]
        both = [result for i in chosen if (result := studies[i].result) is not None]
        lines = [("read", read_line(feature)) for feature in both]
        for name, c in zip(names, comparisons, strict=True):
            lines.append(("verdict", c.sentence if pairs == 1 else f"{name}: {c.sentence}"))
        for side, feature in zip("AB", both, strict=True):
            lines += remarks(feature, f"{side}: ")
        # The verdict is known before the details of the page.
        print_lines(screen, lines)
        for i, study in enumerate(studies):
            explain(study, lambda text, side="AB"[i >= pairs]: screen.step(f"{side}: {text}"))
        used = chosen[decided.difference.verdict == "better"]
        finish(options, screen, " and ".join(titles), studies, used, comparisons)


def read_sides(
    options: Compare, folder: Path, screen: Screen
) -> tuple[list[Prepared], dict[str, tuple[str, str]]]:
    """Return the stores of A and B, of networks too, and the features to compare by name."""
    from resultant.analysis.compare import pair_features, require_same_classes
    from resultant.features.prepare import prepare
    from resultant.training.network_files import find_network

    paths = options.a, options.b
    files = {i: file for i in (0, 1) if (file := find_network(paths[i])) is not None}
    networks: dict[int, tuple[LoadedNetwork, ImageSplits]] = {}
    features: dict[int, Sequence[str]] = {}
    facts: dict[int, tuple[str | None, int | None]] = {}
    if files:
        from resultant.training.extract import FEATURES, open_networks

        networks = open_networks(files, options.image_set.source())
        names = [name for name in FEATURES if options.features in (None, name)]
        features = dict.fromkeys(networks, names)
        facts = {i: (n.config.dataset, n.num_classes) for i, (n, _) in networks.items()}
    stores: dict[int, Prepared] = {}
    for i in sorted({0, 1} - set(networks)):
        # The rows of B are divided as the same rows of A.
        like = stores[0].divided if i and 0 in stores else None
        drop, skip = options.drop_zero_rows, options.skip_unknown_classes
        refuse_classifier(paths[i])
        stores[i] = prepare(options.open(paths[i]), drop, skip, seed=options.seed, like=like)
        features[i], store = stores[i].features, stores[i].store
        facts[i] = store.metadata.get("dataset"), store.num_classes
    for noun, a, b in zip(("dataset", "number of classes"), facts[0], facts[1], strict=True):
        if None not in (a, b) and a != b:
            got = f"{a} in {paths[0]} and {b} in {paths[1]}"
            raise ValueError(f"expected one {noun} in both, got {got}")
    if not networks:
        require_same_classes(paths, [stores[0], stores[1]])
    same = pair_features(features[0], features[1], paths)
    for i, (network, images) in networks.items():
        from resultant.features.store import FeatureStore
        from resultant.training.extract import extract

        screen.step(f"extract features of {printable(paths[i])}")
        out = folder / f"{i}.safetensors"
        extract(network, images, out, device=find_device(options.device))
        store = FeatureStore.open(out)
        store.where = printable(paths[i])
        stores[i] = prepare(store)
    screen.step("read and check the rows")
    chosen = [replace(stores[i], features=tuple(n[i] for n in same.values())) for i in (0, 1)]
    return chosen, same
