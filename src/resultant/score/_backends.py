"""Evaluation of the score: by the kernel of a CPU or of a GPU, otherwise as a torch expression."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.device import kernel_module
from resultant._core.modes import is_traced
from resultant.special import compiled
from resultant.special.debye import expansion, two_product
from resultant.special.differences import phi_difference


def evaluate(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, ...]:
    """Compute the score and, if ``slope``, its slope, broadcasting."""
    if compiled.available(rho, kappa, tau):
        return by_rows(compiled.score, rho, kappa, tau, p, slope)
    kernels = kernel_module("resultant.score._triton") if rho.is_cuda and not is_traced() else None
    if kernels is not None:
        return by_rows(kernels.score, rho, kappa, tau, p, slope)
    return expression(rho, kappa, tau, p, slope)


def by_rows(
    kernel: Callable[..., Any], rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool
) -> tuple[Tensor, ...]:
    """Call a kernel on rho [rows, classes], kappa and tau, each [classes] or one element, where rho
    may have any shape; return results in the broadcast shape."""
    own = validation.broadcast(kappa.shape, tau.shape)
    shape = validation.broadcast(rho.shape, own)
    # A view costs as much as the kernel on a few numbers.
    if kappa.numel() == tau.numel() == 1 and rho.shape == shape:
        return kernel(rho, kappa, tau, p, slope)
    classes = shape[len(shape) - len(own) :]
    # Not -1: there may be no rows.
    rows = shape.numel() // max(1, classes.numel()), classes.numel()
    kappa, tau = (a if a.numel() == 1 else _shaped(a, classes) for a in (kappa, tau))
    results = kernel(_shaped(_shaped(rho, shape), rows), kappa, tau, p, slope)
    return tuple(_shaped(a, shape) for a in results)


def _shaped(a: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return ``a`` in a shape, to which it may broadcast, without a view where it has it."""
    if a.shape == shape:
        return a
    return a.reshape(shape) if a.numel() == math.prod(shape) else a.expand(shape)


def expression(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, ...]:
    """Compute `evaluate` in torch; terms of the classes have the shape of kappa and tau."""
    tilt, e = Tilt(rho, kappa, tau), expansion(p / 2 - 1, kappa.dtype)
    q, r1 = phi_difference(e, tilt.y0, tilt.y1, tilt.h)
    return (q, 0.5 * tilt.two_kappa_t * r1) if slope else (q,)


class Tilt:
    r"""Squares y0 and y1 at both ends of the tilt from :math:`\kappa\mu` to :math:`\kappa\mu + tz`,
    and their difference h, without cancellation."""

    def __init__(self, rho: Tensor, kappa: Tensor, tau: Tensor) -> None:
        self.rho, self.y0, self.t = rho.clamp(-1, 1), kappa * kappa, 1 / tau
        product, lost = two_product(tau, self.t)
        self.t_rest = ((1 - product) - lost) * self.t  # 1/tau - t, to the precision of t
        self.two_kappa_t = 2 * (kappa * self.t + kappa * self.t_rest)
        self.t_squared = self.t * self.t + 2 * self.t * self.t_rest
        gap = (kappa - self.t) - self.t_rest
        self.y1 = torch.addcmul(gap * gap, self.two_kappa_t, 1 + self.rho)
        self.h = torch.addcmul(self.t_squared, self.two_kappa_t, self.rho)
