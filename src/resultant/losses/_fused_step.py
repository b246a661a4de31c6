"""A step of the loss on a GPU in few calls: the gradient is computed together with the loss.

A step as called is bound by the host. Here no operation records a graph, and one kernel goes from
cosines to cross-entropies and to their gradient.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from resultant._core.device import kernel_module
from resultant.losses._partial_softmax import KERNELS
from resultant.losses._views import by_view
from resultant.losses._with_gradient import with_gradient
from resultant.losses.contrastive import ContrastiveLoss


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
    softmax, device = kernel_module(KERNELS), z.device.type
    assert softmax is not None
    # Entered only where needed: the context takes the host as long as a kernel.
    autocast = torch.is_autocast_enabled(device)
    with torch.no_grad(), torch.autocast(device, enabled=False) if autocast else nullcontext():
        snapshot = loss.snapshot(z, y)
        rho = by_view(z.detach(), ()) @ snapshot.mu.mT
        kappa = loss.bank.concentrations(snapshot)
        gains = loss.noted_gains(kappa, z.dtype)
        terms = loss.terms(kappa if gains is None else kappa.to(z.dtype), gains)
        entropies = softmax.finish(rho, kappa, terms, loss.log_prior, loss.bank.dim, y)
        gradient = (rho @ snapshot.mu).view(z.shape)
        value = entropies.mean()
    return with_gradient(z, value, gradient, lambda z: loss.entropy(z, y, snapshot))
