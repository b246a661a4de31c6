"""Low-rank adapters (LoRA) of the attention of a transformer: each weight W is trained as W + B A,
with A [r, i] and B [o, r]. `merged` adds them up, so that files hold networks without adapters."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

# The names of the parts of a weight in a state, as `torch.nn.utils.parametrize` makes them.
ORIGINAL, DOWN, UP = (f".parametrizations.weight.{part}" for part in ("original", "0.A", "0.B"))


class LowRank(nn.Module):
    """A weight [o, i] plus a product of rank r, zero at first."""

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        o, i = weight.shape
        self.A = nn.Parameter((torch.randn(rank, i, generator=generator) / i**0.5).to(weight))
        self.B = nn.Parameter(weight.new_zeros(o, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.B @ self.A


def attention_layers(encoder: nn.Module) -> list[nn.Linear]:
    """Return the linear layers of the attention of an encoder of timm."""
    modules = encoder.named_modules()
    return [m for name, m in modules if ".attn." in name and isinstance(m, nn.Linear)]


def require_adapters(encoder: nn.Module, rank: int | None) -> None:
    """Raise unless an encoder takes adapters of a rank; None for no adapters."""
    if rank is None:
        return
    layers = attention_layers(encoder)
    if not layers:
        rule = "expected a transformer for lora, with layers of attention"
        raise ValueError(f"{rule}, got {type(encoder).__name__}; --stages trains the last stages")
    if rank > (most := min(min(layer.weight.shape) for layer in layers)):
        rule = f"expected lora of {most} or less, the width of the attention"
        raise ValueError(f"{rule}, got {rank}")


def adapt(encoder: nn.Module, rank: int | None, seed: int) -> None:
    """Train adapters of the attention in place of the weights of an encoder, unless ``rank`` is
    None."""
    require_adapters(encoder, rank)
    if rank is None:
        return
    encoder.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for layer in attention_layers(encoder):
        adapter = LowRank(layer.weight, rank, generator)
        parametrize.register_parametrization(layer, "weight", adapter)


def merged(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state without adapters, which computes the same; other entries stay."""
    names = [name.removesuffix(ORIGINAL) for name in state if name.endswith(ORIGINAL)]
    parts = {name + part for name in names for part in (ORIGINAL, DOWN, UP)}
    result = {name: a for name, a in state.items() if name not in parts}
    for name in names:
        result[f"{name}.weight"] = state[name + ORIGINAL] + state[name + UP] @ state[name + DOWN]
    return result
