"""``resultant analyze`` and ``resultant compare``: frozen features, and a report on them."""

from __future__ import annotations

import importlib.resources
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from safetensors import SafetensorError, safe_open

from resultant import checkpoint, ray_engine
from resultant.data.pieces import open_store
from resultant.data.store import FeatureStore
from resultant.evaluation import versions
from resultant.frozen import QUESTIONS, Analysis, FrozenSpace, analyze_space
from resultant.report import comparison, page
from resultant.report.content import analysis_page
from resultant.report.words import listed
from resultant.watch import Shown

SHIPPED = "cifar100-lt-if100.safetensors"
SHARE = 0.2
SEED = 0

Estimator = Literal["mle", "proco", "banerjee"]
Engine = Literal["local", "ray"]
# Not a path: it may be a URL or a pattern.
Features = Annotated[str, tyro.conf.arg(metavar="FEATURES")]


@dataclass(frozen=True)
class Prepared:
    """A store fit to be analysed: the split to test on, the ``features`` of both splits, the names
    of the classes, and what was done to it."""

    store: FeatureStore
    test: str
    features: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def analyze(
    path: tyro.conf.Positional[Features | None] = None,
    out: Path = Path("out/analyze"),
    features: str | None = None,
    labels: str | None = None,
    temperature: float = 0.1,
    estimator: Estimator = "mle",
    engine: Engine = "local",
) -> None:
    """Ask everything of frozen features: which realization and beta to use, and why.

    Ten lines here, and a folder with index.html, results.json, figures and tables. FEATURES is a
    .safetensors, .npz, .npy or .parquet file or a folder of such; without it, features that come
    with the package are analysed. With --engine ray it is a folder of Parquet files or a pattern
    such as 'features/*.parquet', and the work is done on the cluster of RAY_ADDRESS, or on one of
    this machine's CPUs.

    Args:
        path: features and labels of training rows, and of held-out ones if there are any.
        out: the folder to write; an earlier report there is replaced.
        features: the array or Parquet column of features; all by default.
        labels: the array or Parquet column of labels.
        temperature: the shared temperature tau of the scores.
        estimator: how concentrations are estimated.
        engine: where the work is done.
    """
    page.require()
    page.require_place(out)
    console = Console()
    with ExitStack() as stack:
        found = path or stack.enter_context(_shipped())
        if engine == "ray":
            prepared = prepare(open_store(found, features, labels))
            stack.enter_context(ray_engine.cluster())
        else:
            prepared = prepare(FeatureStore.open(found, features=features, labels=labels))
        steps = len(prepared.features) * (len(QUESTIONS) + 2) + 2
        watch = stack.enter_context(Watch(console, steps))
        if engine == "local":
            check(prepared, watch)
        analyses = analyzed(prepared, QUESTIONS, temperature, estimator, watch, engine)
        made = analysis_page(
            analyses, Path(found).name, prepared.names, prepared.notes, about(prepared)
        )
        folder = stack.enter_context(page.whole_folder(out))
        page.write_page(folder, made, watch)
    _tell(console, made, out)


def compare(
    a: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="A")]],
    b: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="B")]],
    out: Path = Path("out/compare"),
    features: str | None = None,
    labels: str | None = None,
    temperature: float = 0.1,
    estimator: Estimator = "mle",
    data: Path | None = None,
) -> None:
    """Put two feature sets side by side, or two trained networks.

    Features of one name are compared; where each has a single one, these. Of a network (what train
    or import-proco wrote) the features are extracted first.

    Args:
        a: features as for analyze, or a trained network.
        b: the same.
        out: the folder to write; an earlier report there is replaced.
        features: the array or Parquet column of features; all by default.
        labels: the array or Parquet column of labels.
        temperature: the shared temperature tau of the scores.
        estimator: how concentrations are estimated.
        data: folder of the images of networks, as for extract.
    """
    page.require()
    page.require_place(out)
    console = Console()
    with ExitStack() as stack:
        spare = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = [
            _extracted(path, data, spare / f"{i}.safetensors", console)
            if is_network(path)
            else path
            for i, path in enumerate((a, b))
        ]
        both = [
            prepare(FeatureStore.open(file, features=features, labels=labels)) for file in files
        ]
        names = paired([each.features for each in both], (a, b))
        steps = 2 * len(names) * (len(comparison.QUESTIONS) + 2) + 3
        watch = stack.enter_context(Watch(console, steps))
        sides = []
        for prepared, chosen in zip(both, zip(*names.values(), strict=True), strict=True):
            check(prepared, watch)
            kept = Prepared(prepared.store, prepared.test, chosen, prepared.names, prepared.notes)
            asked = comparison.QUESTIONS
            sides.append(list(analyzed(kept, asked, temperature, estimator, watch).values()))
        pairs = {name: (sides[0][i], sides[1][i]) for i, name in enumerate(names)}
        notes = [f"{s}: {n}" for s, each in zip("AB", both, strict=True) for n in each.notes]
        facts = {"A": about(both[0]), "B": about(both[1]), "versions": _versions()}
        made = comparison.comparison_page(pairs, (a.name, b.name), notes, facts)
        folder = stack.enter_context(page.whole_folder(out))
        page.write_page(folder, made, watch)
    _tell(console, made, out)


def prepare(store: FeatureStore) -> Prepared:
    """Raise unless the store can be analysed; hold rows out and leave empty classes out as needed.

    A store of one split is divided, 80 to 20 by class.
    """
    where, notes = store.where, []
    for split in store.splits:
        if f"{split}/labels" not in store:
            got = f"{', '.join(store)}; name them with --labels"
            raise ValueError(f"expected {split}/labels in {where}, got {got}")
        if not any(name.startswith(f"{split}/") for name in store.features):
            raise ValueError(f"expected features of {split} in {where}, got {', '.join(store)}")
    if len(store.splits) == 1:
        _require_classes(store, store.splits[0])
        store = store.held_out(SHARE, seed=SEED)
        rule = "one split only: of every class a fifth of its rows is held out for the test"
        notes.append(f"{where} has {rule} (seed {SEED}), and two rows or more are fitted.")
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
    given = store.metadata.get("class_names")
    store, classes = store.without_gaps()
    known = isinstance(given, list) and len(given) > int(classes.max())
    names = tuple(str(given[c]) if known else str(c) for c in classes.tolist())  # type: ignore[index]
    if len(classes) <= int(classes.max()):
        gaps = int(classes.max()) + 1 - len(classes)
        notes.append(f"{gaps} labels below {int(classes.max())} have no rows and are left out.")
    asked = store.label_counts(test)
    if (asked == 0).any():
        missing = [names[c] for c in (asked == 0).nonzero()[:, 0].tolist()]
        notes.append(f"{len(missing)} classes have no held-out row: {listed(missing)}.")
    return Prepared(store, test, tuple(features), names, tuple(notes))


def _require_classes(store: FeatureStore, split: str) -> None:
    counts = store.label_counts(split)
    rule = f"{split}/labels of {store.where}"
    if int((counts > 0).sum()) < 2:
        only = int(counts.argmax())
        raise ValueError(f"expected two classes or more in {rule}, got class {only} only")
    single = (counts == 1).nonzero()[:, 0].tolist()
    if single:
        got = f"one of {len(single)} classes: {listed(map(str, single))}"
        raise ValueError(f"expected two rows or more of each class in {rule}, got {got}")


def check(prepared: Prepared, progress: Callable[[str, float], object]) -> None:
    """Look at every feature before any work."""
    store = prepared.store
    for name in store.features:
        if name.partition("/")[2] not in prepared.features:
            continue
        for rows, _ in store.chunks(name):
            progress("check", rows.stop / store.shape(name)[0])


def analyzed(
    prepared: Prepared,
    questions: Sequence[str],
    tau: float,
    estimator: str,
    watch: Watch,
    engine: Engine = "local",
) -> dict[str, Analysis]:
    """The analysis of each feature of a store."""
    store, found = prepared.store, {}
    fit, ask = FrozenSpace.from_store, analyze_space
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
        found[name] = ask(space, questions, progress=progress)
    return found


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


def is_network(path: Path) -> bool:
    """Whether a file is one of `resultant.checkpoint`, weights and not features."""
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        with safe_open(path, "np") as file:
            return checkpoint.KEY in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _extracted(path: Path, data: Path | None, out: Path, console: Console) -> Path:
    from resultant.commands import extract

    with console.status(f"features of {path.name}"):
        extract(path, out, data=data)
    return out


def _shipped() -> Any:
    return importlib.resources.as_file(
        importlib.resources.files("resultant") / "resources" / SHIPPED
    )


def about(prepared: Prepared) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "source": prepared.store.where,
        "metadata": prepared.store.metadata,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    return versions(torch.device("cpu"))


def _tell(console: Console, made: page.Page, out: Path) -> None:
    """The facts, a line each, and where the page is."""
    lines = [*made.facts, ("report", str(out / "index.html"))]
    width = max(len(heading) for heading, _ in lines)
    for i, (heading, text) in enumerate(lines):
        line = Text(f"{heading:<{width}}  ", style="bold cyan" if not i else "cyan")
        line.append(text, style="bold" if not i else "default")
        console.print(line, soft_wrap=True)


class Watch(Shown):
    """``watch(step, share)``: a bar on a terminal, a line a finished step elsewhere."""

    def __init__(self, console: Console, steps: int) -> None:
        super().__init__(
            console, TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        )
        self.task = self.bar.add_task("", total=steps)
        self.done: set[str] = set()
        self.started = time.perf_counter()

    def __call__(self, step: str, share: float) -> None:
        if share >= 1 and step not in self.done:
            self.done.add(step)
            if not self.console.is_terminal:
                seconds = time.perf_counter() - self.started
                self.console.print(f"{seconds:6.1f} s  {step}", highlight=False)
        part = 0.0 if step in self.done else share
        self.bar.update(self.task, description=step, completed=len(self.done) + part)
