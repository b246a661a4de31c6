"""A step of the loss on a GPU in few calls: the gradient is computed together with the loss.

A step as called is bound by the host. Here no operation records a graph, and one kernel goes from
cosines to cross-entropies and to their gradient.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import torch
from torch import Tensor

from resultant._core.device import kernel_module
from resultant.classes.realization import Terms
from resultant.losses._partial_softmax import KERNELS
from resultant.losses._views import by_view
from resultant.losses._with_gradient import with_gradient
from resultant.losses.contrastive import VANISHING, ContrastiveLoss

EDITED = "resultant.losses._terms_kernel"


def fuses(loss: ContrastiveLoss, z: Tensor) -> bool:
    """Return whether `fused_loss` takes a batch."""
    return (
        z.is_cuda
        and z.requires_grad
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        # Inside a graph the host has no part, and more kernels in parallel are faster.
        and not torch.cuda.is_current_stream_capturing()
        and not (loss.bank.leave_out and loss.training)
        and kernel_module(KERNELS) is not None
    )


def fused_loss(loss: ContrastiveLoss, z: Tensor, y: Tensor) -> Tensor:
    """Return the loss [] of z [N, p] or [V, N, p], in the dtype to compute in, and labels y [N]."""
    _create_handles(z.device)
    softmax, device = kernel_module(KERNELS), z.device.type
    assert softmax is not None
    # Entered only where needed: the context takes the host as long as a kernel.
    autocast = torch.is_autocast_enabled(device)
    with torch.no_grad(), torch.autocast(device, enabled=False) if autocast else nullcontext():
        views = by_view(z.detach())
        snapshot = loss.snapshot(views, y)
        # Not a product of any shapes, which takes the host three times as long.
        rho = torch.bmm(views, snapshot.mu.mT)
        kappa = loss.bank.concentrations(snapshot)
        terms = fused_terms(loss, kappa, z.dtype)
        entropies = softmax.finish(rho, kappa, terms, loss.log_prior, loss.bank.dim, y)
        gradient = torch.bmm(rho, snapshot.mu).view(z.shape)
        value = entropies.mean()
    return with_gradient(z, value, gradient, lambda z: loss.entropy(z, y, snapshot))


@cache
def _create_handles(device: torch.device) -> None:
    """Create the handles of libraries for products in backward passes, which have their own thread.

    The backward pass of a fused step has no product, but that of a step in a CUDA graph has: a
    capture after fused steps would create the handles, and fail.
    """
    with torch.enable_grad():
        a = torch.ones(1, 1, device=device, requires_grad=True)
        torch.autograd.grad((a @ a).sum(), a)


def fused_terms(loss: ContrastiveLoss, kappa: Tensor, dtype: torch.dtype) -> Terms:
    """Return the terms of scores in ``dtype`` of classes [V, C], and note gains for `check`."""
    if not loss.has_gains:
        return Terms(loss.tau(kappa, dtype))
    kernels = kernel_module(EDITED)
    if loss.family != "linear" or kernels is None:
        return loss.terms(kappa.to(dtype), loss.noted_gains(kappa, dtype))
    taus = loss.tau(kappa), loss.tau(kappa, dtype)
    return kernels.edited_terms(
        *(loss.realization, kappa, taus, loss.beta, loss.least_target, loss.bank.dim, VANISHING)
    )
