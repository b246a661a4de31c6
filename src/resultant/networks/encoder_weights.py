"""Weights of an encoder from a file: safetensors, or a .pth that holds only tensors."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from resultant._core.files import require_input_file
from resultant._core.tensor_files import load_tensors, load_torch
from resultant._core.text import one_line

# Entries under which training programs store the weights.
WRAPPERS = ("state_dict", "state_dict_ema", "model", "model_ema", "teacher", "encoder")
# Prefixes of the names of weights inside larger networks.
PREFIXES = ("", "module.", "encoder.", "backbone.", "model.", "module.encoder.", "module.backbone.")


def load_encoder(encoder: nn.Module, path: str, architecture: str, classifier: str = "") -> None:
    """Load the weights of a file into an encoder."""
    tensors, expected = read_weights(path), encoder.state_dict()
    # BatchNorm works without the number of its batches, which older files lack.
    needed = {name for name in expected if not name.endswith("num_batches_tracked")}
    prefix = max(PREFIXES, key=lambda p: sum(p + name in tensors for name in needed))
    missing = sorted(name for name in needed if prefix + name not in tensors)
    rule = f"expected the weights of {architecture} in {path}"
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ValueError(f"{rule}, got none for {prefix}{missing[0]}{more}")
    heads = tuple(f"{prefix}{name}." for name in ("fc", "head", "classifier", classifier) if name)
    for name, a in tensors.items():
        own = name.startswith(prefix) and not name.startswith(heads)
        # A deeper network has all these weights, and more; tables of indices may be stored or not.
        stored = name.removeprefix(prefix) in expected or "attn_mask" in name
        if own and not stored and a.is_floating_point():
            raise ValueError(f"{rule}, got {name} of another network")
    chosen = {name: tensors[prefix + name] for name in expected if prefix + name in tensors}
    for name, value in chosen.items():
        if value.shape != expected[name].shape:
            got = f"{tuple(value.shape)}, expected {tuple(expected[name].shape)}"
            raise ValueError(f"{rule}, got {prefix}{name} of shape {got}")
        if not value.isfinite().all():
            raise ValueError(f"{rule}, got {prefix}{name} with values that are not finite")
    encoder.load_state_dict(chosen, strict=False)


def read_weights(path: str) -> dict[str, Tensor]:
    """Read the tensors of a file by name; pickled objects are refused."""
    file = Path(path)
    if not file.exists():
        raise ValueError(f"expected a file of weights, got nothing at {file}")
    require_input_file(file)
    try:
        content = load_tensors(file)[0] if file.suffix == ".safetensors" else load_torch(file)
    except (ValueError, OSError) as error:
        raise ValueError(f"expected {file} to hold only tensors, got {one_line(error)}") from None
    parts = [content.get(name) for name in WRAPPERS] if isinstance(content, dict) else []
    for part in (*parts, content):
        tensors = part.items() if isinstance(part, dict) else ()
        found = {str(name): a for name, a in tensors if isinstance(a, Tensor)}
        if found:
            return found
    raise ValueError(f"expected {file} to hold tensors by name, got {type(content).__name__}")
