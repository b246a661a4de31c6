"""The sources of all results: records, feature stores, checks of the theory; and readers of frozen
analyses, per network of the records and per query of stores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore
from resultant_reproduction.cells.statistics import Estimate, over_settings
from resultant_reproduction.frozen.questions import Analysis, analyze_space
from resultant_reproduction.frozen.space import FrozenSpace, load_space
from resultant_reproduction.frozen.summarize import SPACES, summarize
from resultant_reproduction.recipes.config import PaperConfig, preset
from resultant_reproduction.recipes.evaluation import FROZEN_FITS, FROZEN_TEMPERATURE
from resultant_reproduction.runs.plans import controlled
from resultant_reproduction.runs.records import Records, dig
from resultant_reproduction.theory import CHECKS, Check

T = TypeVar("T")

# Dataset, imbalance and seed of the packaged network, native and of the controlled recipe.
PACKAGED_KIND = ("cifar100", 100, 0)

# Stores that a user may add: contrastive-only networks, and the authors' of each backbone.
ADDED_STORES = ("imagenet-lt", "inaturalist18", "imagenet-lt-resnet50", "imagenet-lt-resnext50")
# Store of the released classifier on the test images, of which only its accuracies are read.
HEAD_STORE = "imagenet-lt-resnext50-test"
EXTERNAL_DATASETS = ("imagenet-lt", "inaturalist18")
# sec:inat-realization-protocol.
FIT_FRACTION = {"inaturalist18": 0.8}

# Conditions of the frozen tables: dataset and imbalance, or a store.
CONDITIONS: dict[str, tuple[str, int] | str] = {
    **{
        f"{name} / {imbalance}": (dataset, imbalance)
        for name, dataset in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
        for imbalance in (10, 50, 100)
    },
    "ImageNet-LT": "imagenet-lt",
    "iNaturalist 2018": "inaturalist18",
}


def trained_as(condition: str, **changes: object) -> PaperConfig:
    """Training configuration of a condition; that of iNaturalist is the authors'."""
    kind = CONDITIONS[condition]
    if not isinstance(kind, str):
        return controlled(*kind, **changes)
    own = {"objective": "contrastive"} if kind == "imagenet-lt" else {}
    return preset(kind, **(own | changes))


def is_external(condition: str) -> bool:
    """Test whether a condition needs data that may not be shipped."""
    return isinstance(CONDITIONS[condition], str)


@contextmanager
def packaged() -> Iterator[FeatureStore]:
    """Open the packaged features."""
    with packaged_file() as path:
        yield FeatureStore.open(path)


def _require_store(name: str, store: FeatureStore) -> None:
    """Raise unless a store has features of a space and of the dataset of its name."""
    expected = [f"train/{space}" for space in SPACES]
    if not any(array in store for array in expected):
        got = ", ".join(sorted(store))
        raise ValueError(f"expected {' or '.join(expected)} in {store.where}, got {got}")
    dataset = next(known for known in EXTERNAL_DATASETS if name.startswith(known))
    named = store.metadata.get("dataset", dataset)
    if named != dataset:
        raise ValueError(f"expected features of {dataset} in {store.where}, got those of {named}")


def _cached(compute: Callable[[str, str, str], T]) -> Callable[..., T]:
    """Cache a function of a store, a space and an estimator, which is ProCo's by default."""
    # A default of the cached function would split its entries.
    known = cache(compute)
    return lambda store, space, estimator=FROZEN_FITS[0]: known(store, space, estimator)


class Evidence:
    """Records of the rounds, and results of feature stores, which are cached."""

    def __init__(
        self,
        records: Records,
        stores: Mapping[str, Path] | None = None,
        second: Records | None = None,
        third: Records | None = None,
    ) -> None:
        self.records, self.stores = records, dict(stores or {})
        self.second = Records() if second is None else second
        # Records of the third round enter no number of the earlier ones.
        self.third = Records() if third is None else third
        # Two rounds together, for the headline.
        self.every = Records([*records, *self.second])
        self.every.set_aside += self.second.set_aside
        known = [*ADDED_STORES, HEAD_STORE]
        unknown = self.stores.keys() - {*known}
        if unknown:
            rule = f"expected stores named {', '.join(known)}"
            raise ValueError(f"{rule}, got {', '.join(sorted(unknown))}")
        for name, path in self.stores.items():
            _require_store(name, FeatureStore.open(path))
        self.check = cache(self._check)
        # Fitted classes of one space of a store with its held-out queries, their analysis, and the
        # summary of the analysis.
        self.space = _cached(self._space)
        self.analysis = _cached(self._analysis)
        self.summary = _cached(self._summary)
        self._arrays = cache(lambda store: frozenset(FeatureStore.open(self.stores[store])))

    def _check(self, name: str) -> Check:
        return CHECKS[name]()

    def has(self, store: str, space: str | None = None) -> bool:
        """Test whether a store is available, and has features of a space."""
        if store == PACKAGED or store not in self.stores:
            return store == PACKAGED
        return space is None or f"train/{space}" in self._arrays(store)

    def _space(self, store: str, space: str, estimator: str) -> FrozenSpace:
        settings: Any = {"tau": FROZEN_TEMPERATURE, "estimator": estimator}
        settings["fitting_share"] = FIT_FRACTION.get(store)
        if store != PACKAGED:
            features = FeatureStore.open(self.stores[store])
            # Files of earlier versions call any held-out split test.
            held_out = features.metadata.get("held_out", "test")
            test = held_out if f"{held_out}/{space}" in features else "test"
            return load_space(features, space, test=test, **settings)
        with packaged() as shipped:
            return load_space(shipped, space, **settings)

    def _analysis(self, store: str, space: str, estimator: str) -> Analysis:
        return analyze_space(self.space(store, space, estimator))

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        return summarize(self.analysis(store, space, estimator))

    @property
    def released(self) -> dict[str, float]:
        """Accuracies of the released classifier on test images; empty without its store."""
        if HEAD_STORE not in self.stores:
            return {}
        store = FeatureStore.open(self.stores[HEAD_STORE])
        split, accuracies = (store.metadata.get(key) for key in ("held_out", "classifier"))
        if split != "test" or not accuracies:
            rule = f"expected {HEAD_STORE} of resultant extract --split test, with a classifier"
            got = f"the split {split}" if split != "test" else "none"
            raise ValueError(f"{rule}, got {got} in {store.where}")
        return accuracies

    def frozen(
        self, condition: str, space: str, estimator: str = FROZEN_FITS[0]
    ) -> dict[int, dict[str, Any]]:
        """Frozen summaries, or accuracies alone, of native networks by seed."""
        kind = CONDITIONS[condition]
        summaries: dict[int, dict[str, Any]] = {}
        for seed, record in self.every.seeds(trained_as(condition)).items():
            analysis, rules = (record.get(part, {}).get(space) for part in ("analysis", "frozen"))
            if analysis is not None and estimator in analysis:
                summaries[seed] = analysis[estimator]
            elif rules is not None and estimator in rules:
                summaries[seed] = {"accuracy": rules[estimator]}
        if isinstance(kind, str):
            available = self.has(kind, space)
            return {0: self.summary(kind, space, estimator)} if available else summaries
        *packaged, seed = PACKAGED_KIND
        if kind == tuple(packaged) and "cosine" not in summaries.get(seed, {}):
            summaries[seed] = self.summary(PACKAGED, space, estimator)
        return dict(sorted(summaries.items()))


# Reads a number of a frozen summary, None where there is none.
Reader = Callable[[Mapping[str, Any]], float | None]


def read_path(path: str, scale: float = 1.0) -> Reader:
    """Read the number at a dotted path."""

    def read(summary: Mapping[str, Any]) -> float | None:
        value = dig(summary, path)
        return None if value is None else scale * value

    return read


def _difference(after: Reader, before: Reader, scale: float) -> Reader:
    def read(summary: Mapping[str, Any]) -> float | None:
        a, b = after(summary), before(summary)
        return None if a is None or b is None else scale * (a - b)

    return read


def read_change(after: str, before: str, scale: float = 100.0) -> Reader:
    """Read the difference of two numbers, by default in points."""
    return _difference(read_path(after), read_path(before), scale)


def read_edit(beta: float, gamma: float = 0.0, rule: str = "angular") -> Reader:
    """Read the change of accuracy by a rule at beta, from native at the same prior, in points."""
    names = f"{rule} {beta:g} {gamma:g}", f"native 1 {gamma:g}"
    after, before = (lambda s, name=name: s.get("grid", {}).get(name) for name in names)
    return _difference(after, before, 100.0)


def by_condition(
    evidence: Evidence,
    read: Reader,
    conditions: Iterable[str] = CONDITIONS,
    spaces: Sequence[str] = SPACES,
) -> dict[tuple[str, str], list[float]]:
    """Read a number of every native network, in the conditions that have any."""
    numbers = {}
    for condition, space in product(conditions, spaces):
        summaries = evidence.frozen(condition, space).values()
        values = [v for s in summaries if (v := read(s)) is not None]
        if values:
            numbers[condition, space] = values
    return numbers


def pooled(evidence: Evidence, read: Reader) -> dict[str, Estimate]:
    """Average a number over native networks and settings, by dataset and space, with intervals."""
    settings: dict[str, list[list[float]]] = {}
    for (condition, space), values in by_condition(evidence, read).items():
        settings.setdefault(f"{condition.partition(' / ')[0]} {space}", []).append(values)
    means = {place: over_settings(values) for place, values in settings.items()}
    return {place: i for place, i in means.items() if i is not None}
