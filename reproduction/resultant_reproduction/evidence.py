"""What the artefacts are made from: records, feature stores, and the checks of the theory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from resultant.analysis import (
    Analysis,
    Decisions,
    FrozenSpace,
    Policy,
    analyze_space,
    decide,
    load_space,
)
from resultant.classes.rule import REALIZATIONS
from resultant.features.packaged import PACKAGED, packaged_file
from resultant.features.store import FeatureStore
from resultant.training.config import TrainConfig, preset
from resultant.training.evaluation import FROZEN_FITS, FROZEN_TEMPERATURE
from resultant_reproduction.plan import BOTH, controlled
from resultant_reproduction.records import Records
from resultant_reproduction.summarize import SPACES, summarize
from resultant_reproduction.theory import CHECKS, Check

# A native network of the controlled recipe, of this data set, imbalance and seed, is shipped.
PACKAGED_KIND = ("cifar100", 100, 0)

# Stores that a user may bring, and what the paper calls them.
BROUGHT = {
    "imagenet-lt": "ImageNet-LT, contrastive-only",
    "inaturalist18": "iNaturalist 2018, the authors' network",
    "imagenet-lt-resnet50": "ImageNet-LT, the authors' ResNet-50",
    "imagenet-lt-resnext50": "ImageNet-LT, the authors' ResNeXt-50",
}
FOREIGN_DATASETS = ("imagenet-lt", "inaturalist18")
# sec:inat-realization-protocol.
FITTING_SHARE = {"inaturalist18": 0.8}

# The rules whose decisions are compared query by query: Pure Angular over beta, the others at
# complete equalization, and with a prior.
DECIDED = (
    *(Policy(rule).canonical for rule in REALIZATIONS),
    *(Policy("angular", beta) for beta in (-0.5, 0.5, 1.5, 2.0)),
    *(Policy(rule, 0.0, gamma).canonical for gamma in (-1.0, 1.0) for rule in BOTH),
)

# The conditions of the frozen tables: data set and imbalance, or a store.
CONDITIONS: dict[str, tuple[str, int] | str] = {
    **{
        f"{name} / {imbalance}": (dataset, imbalance)
        for name, dataset in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
        for imbalance in (10, 50, 100)
    },
    "ImageNet-LT": "imagenet-lt",
    "iNaturalist 2018": "inaturalist18",
}


def trained_as(condition: str, **changes: object) -> TrainConfig:
    """How the networks of a condition are trained; iNaturalist's is that of the authors."""
    kind = CONDITIONS[condition]
    if not isinstance(kind, str):
        return controlled(*kind, **changes)
    own = {"objective": "contrastive"} if kind == "imagenet-lt" else {}
    return preset(kind, **(own | changes))


@contextmanager
def packaged() -> Iterator[FeatureStore]:
    """The features that are shipped."""
    with packaged_file() as path:
        yield FeatureStore.open(path)


def _require_store(name: str, store: FeatureStore) -> None:
    """Raise unless a store that is brought may be what it is called."""
    wanted = [f"train/{space}" for space in SPACES]
    if not any(array in store for array in wanted):
        got = ", ".join(sorted(store))
        raise ValueError(f"expected {' or '.join(wanted)} in {store.where}, got {got}")
    dataset = next(known for known in FOREIGN_DATASETS if name.startswith(known))
    told = store.metadata.get("dataset", dataset)
    if told != dataset:
        raise ValueError(f"expected features of {dataset} in {store.where}, got those of {told}")


class Evidence:
    """Records of a folder, the packaged features, and stores by the names of `BROUGHT`.

    What is computed from features is computed once.
    """

    def __init__(self, records: Records, stores: Mapping[str, Path] | None = None) -> None:
        self.records, self.stores = records, dict(stores or {})
        unknown = self.stores.keys() - BROUGHT.keys()
        if unknown:
            rule = f"expected stores named {', '.join(BROUGHT)}"
            raise ValueError(f"{rule}, got {', '.join(sorted(unknown))}")
        for name, path in self.stores.items():
            _require_store(name, FeatureStore.open(path))
        self.check = cache(self._check)
        self.summary = cache(self._summary)
        # Without defaults: a cache would keep what is asked for with and without them apart.
        self._spaces = cache(self._space)
        self._analyses = cache(self._analysis)
        self._decided = cache(self._decisions)
        self._arrays = cache(lambda store: frozenset(FeatureStore.open(self.stores[store])))

    def _check(self, name: str) -> Check:
        return CHECKS[name]()

    def has(self, store: str, space: str | None = None) -> bool:
        """Whether a store is there, and features of a space in it."""
        if store == PACKAGED or store not in self.stores:
            return store == PACKAGED
        return space is None or f"train/{space}" in self._arrays(store)

    def space(self, store: str, space: str, estimator: str = FROZEN_FITS[0]) -> FrozenSpace:
        """The classes of one space of a store, fitted by an estimator, and its held-out queries."""
        return self._spaces(store, space, estimator)

    def analysis(self, store: str, space: str, estimator: str = FROZEN_FITS[0]) -> Analysis:
        """All questions to one space of a store."""
        return self._analyses(store, space, estimator)

    def decisions(self, store: str, space: str, estimator: str = FROZEN_FITS[0]) -> Decisions:
        """What `DECIDED` say of every held-out query."""
        return self._decided(store, space, estimator)

    def _space(self, store: str, space: str, estimator: str) -> FrozenSpace:
        if store != PACKAGED:
            return _fitted(FeatureStore.open(self.stores[store]), space, estimator, store)
        with packaged() as shipped:
            return _fitted(shipped, space, estimator, store)

    def _analysis(self, store: str, space: str, estimator: str) -> Analysis:
        return analyze_space(self.space(store, space, estimator))

    def _decisions(self, store: str, space: str, estimator: str) -> Decisions:
        return decide(self.space(store, space, estimator), DECIDED)

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """The frozen spaces at hand: what they are called, store and space. Those of the packaged
        network need no name."""
        return [(space.capitalize(), PACKAGED, space) for space in SPACES] + [
            (f"{space.capitalize()} of {title}", name, space)
            for name, title in BROUGHT.items()
            for space in SPACES
            if self.has(name, space)
        ]

    def _summary(self, store: str, space: str, estimator: str) -> dict[str, Any]:
        return summarize(self.analysis(store, space, estimator))

    def frozen(
        self, condition: str, space: str, estimator: str = FROZEN_FITS[0]
    ) -> dict[int, dict[str, Any]]:
        """The frozen summaries of the native networks of a condition, by seed.

        Records without one have accuracies alone.
        """
        kind = CONDITIONS[condition]
        found: dict[int, dict[str, Any]] = {}
        for seed, record in self.records.seeds(trained_as(condition)).items():
            whole, rules = (record.get(part, {}).get(space) for part in ("analysis", "frozen"))
            if whole is not None and estimator in whole:
                found[seed] = whole[estimator]
            elif rules is not None and estimator in rules:
                found[seed] = {"accuracy": rules[estimator]}
        if isinstance(kind, str):
            there = self.has(kind, space)
            return {0: self.summary(kind, space, estimator)} if there else found
        *packaged, seed = PACKAGED_KIND
        if kind == tuple(packaged) and "cosine" not in found.get(seed, {}):
            found[seed] = self.summary(PACKAGED, space, estimator)
        return dict(sorted(found.items()))


def foreign(condition: str) -> bool:
    """Whether a condition asks for data that cannot be shipped."""
    return isinstance(CONDITIONS[condition], str)


def _fitted(store: FeatureStore, space: str, estimator: str, name: str) -> FrozenSpace:
    if space not in SPACES or f"train/{space}" not in store:
        raise ValueError(f"expected features {space} in {store.where}, got {', '.join(store)}")
    share = FITTING_SHARE.get(name)
    return load_space(
        store, space, tau=FROZEN_TEMPERATURE, estimator=estimator, fitting_share=share
    )
