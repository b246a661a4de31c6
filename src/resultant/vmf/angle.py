r"""Exact samples of the angle of a von Mises-Fisher vector to its mean direction, of the density
:math:`f(\theta) \propto e^{\kappa\cos\theta}\sin^{p-2}\theta`, and their derivatives in kappa."""

import math
from typing import Any

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, opaque
from resultant._core.modes import is_mapped
from resultant.special.differences import gauss_legendre, ratio_slopes

# The velocity of an angle is integrated to where its curvature predicts that the density has fallen
# by exp(-DEPTH), with NODES Gauss-Legendre nodes.
DEPTH = 60.0
NODES = 32


def angle(kappa: Tensor, p: int, generator: torch.Generator | None = None) -> Tensor:
    """Sample the angle for each kappa (float64), with its derivative in kappa."""
    fixed = kappa.detach()
    if not (torch.compiler.is_compiling() or is_mapped()):
        return _move(kappa, sample_angle(p, fixed, generator), p)
    # A batch of seeds makes a batch of angles, and vmap raises where it forbids draws.
    seed = torch.randint(2**62, (), device=kappa.device, generator=generator)
    return _move(kappa, _seeded(fixed, seed, p), p)


# One operation to torch.compile, to torch.func and in exported programs.
@torch.library.custom_op("resultant::sample_angle", mutates_args=())
def _seeded(kappa: Tensor, seed: Tensor, p: int) -> Tensor:
    generator = torch.Generator(kappa.device).manual_seed(int(seed))
    return sample_angle(p, kappa, generator)


_seeded.register_fake(lambda kappa, *_: kappa.new_empty(kappa.shape))


@_seeded.register_vmap
def _batch(
    info: Any, in_dims: tuple[int | None, ...], kappa: Tensor, seed: Tensor, p: int
) -> tuple[Tensor, int]:
    batch, seeds, _ = in_dims
    whole = info.batch_size, *kappa.shape
    rows = kappa.expand(whole) if batch is None else kappa.movedim(batch, 0)
    if seeds is not None:
        return _seeded(rows, seed.select(seeds, 0), p), 0
    return torch.stack([_seeded(row, seed, p) for row in rows]), 0


@elementwise("move_angle", lambda k, theta, p: velocity(k, _move(k, theta, p), p), None, None)  # type: ignore[misc]
def _move(kappa: Tensor, theta: Tensor, p: int) -> Tensor:
    """Return a sample theta, which moves with kappa."""
    return theta.clone()


def sample_angle(p: int, kappa: Tensor, generator: torch.Generator | None = None) -> Tensor:
    r"""Sample an angle for each kappa, by the rejection of Ulrich (1984) and Wood (1994).

    With G a ratio of two Gamma((p-1)/2) variates, their proposal is
    :math:`\tan^2(\theta/2) = bG`, and since :math:`4\kappa b = (p-1)(1-b^2)` it is accepted with
    log probability :math:`(p-1)[s + \log(1-s)]`, :math:`s = (1-b)(1-G)/(2+2bG)`.
    """
    b = (p - 1) / (2 * kappa + (4 * kappa * kappa + (p - 1) ** 2).sqrt()).flatten()
    square = torch.empty_like(b)  # tan^2(theta/2)
    waiting = torch.arange(len(b), device=b.device)
    while len(waiting):
        scale = b[waiting]
        shape = torch.full_like(scale, (p - 1) / 2)
        G = torch._standard_gamma(shape, generator) / torch._standard_gamma(shape, generator)
        s = (1 - scale) * (1 - G) / (2 + 2 * scale * G)
        # Not ">=": a NaN concentration must give NaN, not an endless loop.
        uniform = torch.rand(s.shape, dtype=s.dtype, device=s.device, generator=generator)
        accepted = ~((p - 1) * (s + torch.log1p(-s)) < uniform.log())
        square[waiting] = scale * G
        waiting = waiting[~accepted]
    return 2 * square.sqrt().atan().reshape(kappa.shape)


@opaque("angle_velocity")
def velocity(kappa: Tensor, theta: Tensor, p: int) -> Tensor:
    r"""The derivative of a sample in the concentration, in float64:

    .. math:: \frac{\partial\theta}{\partial\kappa}
        = \frac1{f(\theta)}\int_\theta^\pi(\cos\varphi-A)f(\varphi)\,d\varphi
        = -\frac1{f(\theta)}\int_0^\theta(\cos\varphi-A)f(\varphi)\,d\varphi.

    The integral over which :math:`\cos\varphi-A` keeps its sign is used.
    """
    # cos(theta) - A, from the complements to one.
    lead = ratio_slopes(p / 2 - 1, kappa).complement - 2 * (theta / 2).sin() ** 2
    side = torch.where(lead < 0, 1.0, -1.0)
    cos, sin = theta.cos(), theta.sin().clamp_min(1e-100)
    cot = cos / sin
    fall = side * (kappa * sin - (p - 2) * cot)
    curvature = ((p - 2) / (sin * sin) + kappa * cos).clamp_min(0)
    reach = 2 * DEPTH / (fall + (fall * fall + 2 * DEPTH * curvature).sqrt())
    reach = torch.minimum(reach, torch.where(side > 0, math.pi - theta, theta))
    total = torch.zeros_like(theta)
    for node, weight in gauss_legendre(NODES):
        half = side * reach * (node / 2)  # phi = theta + 2 half
        s, c = half.sin(), half.cos()
        drop = 2 * s * (theta + half).sin()  # cos(theta) - cos(phi)
        log_sin = torch.log1p((2 * s * (cot * c - s)).clamp_min(-1 + 1e-16))
        total += weight * (lead - drop) * ((p - 2) * log_sin - kappa * drop).exp()
    return side * reach * total
