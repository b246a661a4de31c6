"""Frozen spaces of the features of a store."""

from __future__ import annotations

from typing import Any

from resultant.analysis.space import FrozenSpace
from resultant.features.store import FeatureStore


def load_space(
    store: FeatureStore,
    feature: str,
    *,
    train: str = "train",
    test: str = "test",
    val: str | None = None,
    **options: Any,
) -> FrozenSpace:
    """Fit the space of one feature of a store.

    Identities in the store keep the views of one image on one side of a division.

    Args:
        store: The store.
        feature: The name of the feature, such as ``encoder`` or ``projection``.
        train: The split of the training rows.
        test: The split of the queries.
        val: The split of the rows that choose settings, or None.
        **options: Keyword arguments of `FrozenSpace.fit`.

    Returns:
        The space.

    Example:
        >>> from resultant.analysis import load_space
        >>> from resultant.features import FeatureStore, packaged_file
        >>> with packaged_file() as path:
        ...     load_space(FeatureStore.open(path), "projection").num_classes
        100
    """
    identities = None
    if f"{train}/identities" in store:
        identities = store[f"{train}/identities"]
    if val is not None:
        options |= {"val": store.vectors(f"{val}/{feature}"), "val_labels": store[f"{val}/labels"]}
    return FrozenSpace.fit(
        store.vectors(f"{train}/{feature}"),
        store[f"{train}/labels"],
        store.vectors(f"{test}/{feature}"),
        store[f"{test}/labels"],
        num_classes=store.num_classes,
        name=feature,
        identities=identities,
        **options,
    )
