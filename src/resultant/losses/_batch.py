"""Checks of the features and labels of a batch."""

from __future__ import annotations

from torch import Tensor

from resultant._core.arrays import require_features, require_labels, shape_of


def require_vectors(z: Tensor, bank: Tensor) -> None:
    """Raise unless z is [N, p] or [V, N, p], of a floating dtype and on the device of a bank
    [C, p + 1]."""
    dim = bank.shape[1] - 1
    if not isinstance(z, Tensor) or z.dim() not in (2, 3) or z.shape[-1] != dim:
        raise ValueError(f"expected z [N, {dim}] or [V, N, {dim}], got {shape_of(z)}")
    require_features(z.detach().flatten(0, -2), dim, bank.device, False)


def require_unit(z: Tensor) -> None:
    """Raise unless z [..., p] holds vectors of length one, where values are checked."""
    require_features(z.detach().flatten(0, -2), z.shape[-1], z.device, None)


def require_batch(
    z: Tensor, y: Tensor, num_classes: int, bank: Tensor, ignore_index: int | None = None
) -> None:
    """Raise unless z holds vectors [N, p] or [V, N, p] of N > 0 samples and y [N] their labels."""
    require_vectors(z, bank)
    if not z.shape[-2]:
        raise ValueError("expected a batch of one sample or more, got an empty batch: skip it")
    if isinstance(y, Tensor):
        if y.is_floating_point():
            raise ValueError(
                f"expected y [N] of class indices, got soft labels ({y.dtype}, {shape_of(y)}): a "
                "sample enters the statistics of one class; compute this loss on unmixed samples"
            )
        if z.dim() == 3 and y.shape == z.shape[:1] != z.shape[1:2]:
            got = f"z {tuple(z.shape)} with y {tuple(y.shape)}"
            raise ValueError(f"expected views first, z [V, N, p], got {got}: use z.transpose(0, 1)")
        if ignore_index is not None:
            y = y.masked_fill(y == ignore_index, 0)
    require_labels(y, z.shape[-2], num_classes, bank.device, None)
