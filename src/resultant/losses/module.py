"""The base of losses and of their statistics."""

from __future__ import annotations

from typing import Any

from torch import nn


class WideModule(nn.Module):
    """Module whose buffers move with it and keep their dtype: ``half()`` is for networks."""

    def _apply(self, fn: Any, recurse: bool = True) -> WideModule:
        kept = {name: a for name, a in self._buffers.items() if a is not None and not a.is_meta}
        super()._apply(fn, recurse)
        for name, a in kept.items():
            # Also for ``to_empty``, which would forget the settings of a loss.
            self._buffers[name] = a.to(getattr(self, name).device).contiguous()
        return self
