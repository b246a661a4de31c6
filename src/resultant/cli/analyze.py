"""``resultant analyze``: frozen features, and a report on them."""

from __future__ import annotations

import importlib.resources
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor

from resultant._core.arrays import require_temperature
from resultant.analysis import QUESTIONS, Analysis, FrozenSpace, analyze_space
from resultant.analysis import ray as ray_engine
from resultant.cli.arguments import find_device, refuse_network
from resultant.cli.options import Analyze, Engine
from resultant.cli.progress import Step, Steps, terminal
from resultant.features.partition import open_store
from resultant.features.rows import require_disk
from resultant.features.schema import ZeroVectorsError
from resultant.features.store import FeatureStore, printable
from resultant.report import page
from resultant.report.analysis_page import analysis_page
from resultant.report.words import counted, listed, shown
from resultant.training.evaluation import versions

SHIPPED = "cifar100-lt-if100.safetensors"
SHARE = 0.2
SEED = 0


@dataclass(frozen=True)
class Prepared:
    """A store fit to be analysed: the split to test on, the ``features`` of both splits, the names
    of the classes, and what was done to it; ``zeros`` are the rows of each split of the file that
    were dropped."""

    store: FeatureStore
    test: str
    features: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    zeros: Mapping[str, Tensor]


def analyze(options: Analyze) -> None:
    """Analyse the features, write the page of them, and tell its facts."""
    page.require()
    page.require_place(options.out)
    # Before features are read, which may take long.
    where = 1, torch.device("cpu"), True
    require_temperature(options.temperature, *where, dtype=torch.float32, name="--temperature")
    features, labels = options.features, options.labels
    place, aside = find_device(options.device), terminal(stderr=True)
    if options.engine == "ray" and place.type != "cpu":
        raise ValueError(f"expected --device cpu with --engine ray, got {options.device}")
    share, drop = options.fitting_share, options.drop_zero_rows
    if drop and options.engine == "ray":
        raise ValueError("expected no --drop-zero-rows with --engine ray, got both")
    if share is not None and (options.engine == "ray" or not 0 < share < 1):
        rule = "expected --fitting-share in (0, 1), and none with --engine ray"
        raise ValueError(f"{rule}, got {share:g} with --engine {options.engine}")
    with ExitStack() as stack:
        found = options.path or stack.enter_context(_shipped())
        if options.engine == "ray":
            prepared = prepare(open_store(found, features, labels))
            stack.enter_context(ray_engine.cluster())
        else:
            refuse_network(found)
            prepared = prepare(FeatureStore.open(found, features=features, labels=labels), drop)
            require_room(aside, prepared)
        steps = len(prepared.features) * (len(QUESTIONS) + 2) + 2
        watch = stack.enter_context(Steps(aside, steps))
        if options.engine == "local":
            check(prepared, watch)
        answers = analyzed(
            *(prepared, QUESTIONS, options.temperature, options.estimator),
            *(watch, options.engine, place, share),
        )
        analyses = {name: analysis for name, (_, analysis) in answers.items()}
        made = analysis_page(
            analyses,
            printable(os.path.basename(os.path.abspath(found))),
            prepared.names,
            prepared.notes,
            about(prepared, place),
        )
        folder = stack.enter_context(page.whole_folder(options.out))
        page.write_page(folder, made, watch)
    tell(Console(), made, options.out)


def prepare(store: FeatureStore, drop_zeros: bool = False) -> Prepared:
    """Raise unless the store can be analysed; hold rows out and leave classes out as needed, and
    rows of zero vectors where asked for.

    A store of one split is divided, 80 to 20 by class. Classes without a training row are left
    out, and those of a single one too: its direction is that of the class exactly, and says
    nothing of how far others lie from it.
    """
    where, notes = store.where, []
    for split in store.splits:
        if f"{split}/labels" not in store:
            got = f"{', '.join([*store, *store.left_out])}; name them with --labels"
            raise ValueError(f"expected {split}/labels in {where}, got {got}")
        if not any(name.startswith(f"{split}/") for name in store.features):
            raise ValueError(f"expected features of {split} in {where}, got {', '.join(store)}")
    if store.label_files:
        notes.append(f"The labels are those of {listed(store.label_files)}.")
    zeros: Mapping[str, Tensor] = {}
    if drop_zeros:
        store, zeros = store.without_zeros()
        for split, rows in zeros.items():
            number = counted(len(rows), "row of zero vectors is", "rows of zero vectors are")
            notes.append(f"{number} left out of {split}, the first of them row {int(rows[0])}.")
    if len(store.splits) == 1:
        _require_classes(store, store.splits[0])
        store = store.held_out(SHARE, seed=SEED)
        rule = "one split only: a fifth of every class is held out for the test"
        notes.append(f"{where} has {rule} (seed {SEED}), two rows or more are fitted.")
    elif "train" not in store.splits:
        raise ValueError(f"expected a split train in {where}, got {' and '.join(store.splits)}")
    test = "test" if "test" in store.splits else "val"
    _require_classes(store, "train")
    if "val" in store.splits and test == "test":
        notes.append("The split val is not used.")
    features = []
    for name in (n.removeprefix("train/") for n in store.features if n.startswith("train/")):
        if f"{test}/{name}" not in store:
            notes.append(f"{name} has no rows in {test} and is left out.")
            continue
        width, other = store.shape(f"train/{name}")[1], store.shape(f"{test}/{name}")[1]
        if width != other:
            rule = f"expected {test}/{name} of {where} of dimension {width}, as in train/{name}"
            raise ValueError(f"{rule}, got {other}")
        if width < 2:
            raise ValueError(f"expected {name} of {where} of dimension 2 or more, got {width}")
        features.append(name)
    if not features:
        rule = f"expected features of one name in train and {test} of {where}"
        raise ValueError(f"{rule}, got {', '.join(store.features)}")
    known = _names(store)
    gaps = store.label_gaps()
    asked = store.label_counts(test)
    store, single = store.without_rare(2)
    store, classes = store.without_gaps()
    names = tuple(known[c] for c in classes.tolist())
    largest = int(torch.cat([classes, single]).max())
    if number := sum(c < largest for c in gaps):
        what = counted(number, "label", "labels")
        have = "has no rows and is" if number == 1 else "have no rows and are"
        notes.append(f"{what} below {largest} {have} left out.")
    if len(single):
        which = listed(shown(known[c]) for c in single.tolist())
        rows = counted(int(asked[single].sum()), f"{test} row", f"{test} rows")
        said = f"class has a single training row and is left out with its {rows}"
        if len(single) > 1:
            said = f"classes have a single training row and are left out with their {rows}"
        notes.append(f"{len(single)} {said}: {which}.")
    asked = store.label_counts(test)
    if (asked == 0).any():
        missing = [shown(names[c]) for c in (asked == 0).nonzero()[:, 0].tolist()]
        have = counted(len(missing), "class has", "classes have")
        notes.append(f"{have} no held-out row: {listed(missing)}.")
    if store.left_out:
        notes.append(f"Not read: {listed(store.left_out)}.")
    return Prepared(store, test, tuple(features), names, tuple(notes), zeros)


def _names(store: FeatureStore) -> list[str]:
    """The names of all classes; those of the store, of which there must be enough."""
    given = store.metadata.get("class_names")
    if given is None:
        return [str(c) for c in range(store.num_classes)]
    largest = max(int(store[f"{split}/labels"].max()) for split in store.splits)
    if not isinstance(given, list) or len(given) <= largest:
        rule = f"expected class_names of {store.where} to be a list of {largest + 1} names or more"
        got = len(given) if isinstance(given, list) else type(given).__name__
        raise ValueError(f"{rule}, got {got}")
    return [_line(name) for name in given]


def _line(name: object) -> str:
    """A name as a terminal and a page can show it in a line."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())


def _require_classes(store: FeatureStore, split: str) -> None:
    counts = store.label_counts(split)
    rule = f"{split}/labels of {store.where}"
    if int((counts > 0).sum()) < 2:
        only = int(counts.argmax())
        raise ValueError(f"expected two classes or more in {rule}, got class {only} only")
    if int((counts > 1).sum()) < 2:
        got = f"{int((counts == 1).sum())} classes of a single row"
        raise ValueError(f"expected two classes or more of two rows or more in {rule}, got {got}")


def require_room(console: Console, *stores: Prepared) -> None:
    """Raise unless there is disk for the copies that are made of features; tell how much."""
    sizes = [each.store.copied_bytes(*_arrays(each)) for each in stores]
    if any(sizes):
        copied = [each.store.where for each, size in zip(stores, sizes, strict=True) if size]
        require_disk(sum(sizes), " and ".join(copied))
        size, folder = f"{sum(sizes) / 1e9:.1f} GB", tempfile.gettempdir()
        console.print(f"{size} of features are copied to {folder} meanwhile", soft_wrap=True)


def check(prepared: Prepared, progress: Step) -> None:
    """Look at every feature before any work, and make the copies that are needed."""
    store = prepared.store
    names = _arrays(prepared)
    total, done = sum(store.shape(name)[0] for name in names), 0
    for name in names:
        try:
            for rows in store.settle(name):
                progress("check", (done + rows.stop) / total)
        except ZeroVectorsError as error:
            raise ValueError(f"{error}; --drop-zero-rows leaves them out") from None
        done += store.shape(name)[0]


def _arrays(prepared: Prepared) -> list[str]:
    return [f"{split}/{n}" for split in ("train", prepared.test) for n in prepared.features]


def analyzed(
    prepared: Prepared,
    questions: Sequence[str],
    tau: float,
    estimator: str,
    watch: Step,
    engine: Engine = "local",
    device: torch.device | str = "cpu",
    fitting_share: float | None = None,
) -> dict[str, tuple[FrozenSpace, Analysis]]:
    """The space of each feature of a store, and the analysis of it."""
    store, found = prepared.store, {}
    fit = partial(FrozenSpace.from_store, device=device, fitting_share=fitting_share)
    ask = analyze_space
    if engine == "ray":
        fit, ask = ray_engine.fit_space, ray_engine.answer
    for name in prepared.features:

        def progress(step: str, share: float, name: str = name) -> None:
            # What is mapped counts as memory only while it is looked at.
            store.release()
            watch(f"{name}: {step}", share)

        space = fit(
            store, name, test=prepared.test, tau=tau, estimator=estimator, progress=progress
        )
        found[name] = space, ask(space, questions, progress=progress)
    return found


def _shipped() -> Any:
    return importlib.resources.as_file(
        importlib.resources.files("resultant") / "resources" / SHIPPED
    )


def about(prepared: Prepared, device: torch.device) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "source": prepared.store.where,
        "metadata": prepared.store.metadata,
        "versions": versions(device),
    }


def tell(console: Console, made: page.Page, out: Path) -> None:
    """The facts and the notes, a line each, and where the page is."""
    notes = [("note", note) for note in made.notes]
    lines = [*made.facts, *notes, ("report", printable(out / "index.html"))]
    width = max(len(heading) for heading, _ in lines)
    for i, (heading, text) in enumerate(lines):
        line = Text(f"{heading:<{width}}  ", style="bold cyan" if not i else "cyan")
        line.append(text, style="bold" if not i else "default")
        console.print(line, soft_wrap=True)
