"""Errors that a step meets where it must not wait: on a GPU, and on one of several processes. They
are noted there, and raised by a later step, or by `check`."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.validation import DivergedError
from resultant.classes.gain import require_of_classes
from resultant.losses.module import WideModule

# What is noted of a vector of wrong length: its class plus this number, or less without a class.
FIRST_CLASS = 2


class LateErrors(WideModule):
    """Notes about the steps so far: a vector of another length than one, and classes without a
    temperature."""

    noted: Tensor
    least: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        # The largest class of a vector of wrong length, plus `FIRST_CLASS`, or 1 for one without a
        # class; and 1 if a class has no temperature.
        self.register_buffer("noted", torch.zeros(2, dtype=torch.int64), persistent=False)
        # The least gain or target gain of each class.
        least = torch.full((num_classes,), math.inf, dtype=torch.float64)
        self.register_buffer("least", least, persistent=False)
        # A copy of ``noted`` in pinned memory, which the host reads without waiting.
        self.known: Tensor | None = None

    def reset(self) -> None:
        """Forget all notes."""
        self.noted.zero_()
        self.least.fill_(math.inf)
        if self.known is not None:
            self.known.zero_()

    def note_lengths(self, classes: Tensor, off: Tensor) -> None:
        """Note the ``classes`` [M] of the vectors that are ``off`` [M]; -1 stands for no class."""
        numbers = (classes + FIRST_CLASS).clamp_min(1)
        numbers = torch.where(off, numbers, 0).amax()
        self.noted[0].copy_(torch.maximum(self.noted[0], numbers))

    def note_least(self, least: Tensor) -> None:
        """Note the least gains or target gains [C] of a step; NaN is not a gain."""
        torch.fmin(self.least, least, out=self.least)
        self.noted[1].copy_((self.least <= 0).any())

    def publish(self) -> None:
        """Copy the notes to where the host reads them without waiting."""
        if not self.noted.is_cuda or torch.compiler.is_compiling():
            return
        if self.known is None:
            # Later steps write to it, also if this one is in inference mode.
            with torch.inference_mode(False):
                self.known = torch.zeros(2, dtype=torch.int64, device="cpu").pin_memory()
        self.known.copy_(self.noted, non_blocking=True)

    def raise_known(self, class_name: Callable[[int], str]) -> None:
        """Raise what the host knows without waiting."""
        known = self.noted if validation.should_validate(None, self.noted) else self.known
        if known is not None and any(known.tolist()):
            self.check(class_name)

    def check(self, class_name: Callable[[int], str]) -> None:
        """Raise what was noted since the last error. Waits for the device."""
        number, least = int(self.noted[0]), self.least.to("cpu", copy=True)
        self.reset()
        if number:
            c = number - FIRST_CLASS
            raise DivergedError(
                "expected unit vectors z in all steps so far, got another length"
                f"{f' in {class_name(c)}' if c >= 0 else ''}: the vector is not in the statistics "
                "(a vector of zeros has no direction; normalize after casting to float32)"
            )
        require_gains(least, class_name)

    def __getstate__(self) -> dict[str, Any]:
        # A copy of pinned memory would not be pinned.
        return {**super().__getstate__(), "known": None}


def require_gains(least: Tensor, class_name: Callable[[int], str]) -> None:
    """Raise unless the least gains [C] of all classes are > 0; minus infinity stands for a
    temperature at which scores cannot be compared."""

    def named(c: int) -> str:
        got = f"{least[c]:.4g}" if least[c].isfinite() else "no temperature in reach"
        return f"{class_name(c)} ({got})"

    rule = "target gains > 0 and gains > 0 for class temperatures in reach"
    require_of_classes(rule, least > 0, named)
