"""A job of several CIFAR runs, which are trained together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resultant.training.job import Job
from resultant_reproduction.recipes.config import STACK, PaperConfig


@dataclass(frozen=True)
class CifarJob(Job):
    """Runs of one configuration that are trained together.

    Attributes:
        gradient_epochs: Epochs after which leading and exact gradients are compared.
        stack: Largest number of runs in one network.
    """

    config: PaperConfig
    gradient_epochs: tuple[int, ...] = ()
    stack: int = STACK

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stack < 1:
            raise ValueError(f"expected stack >= 1, got {self.stack}")
        for epoch in self.gradient_epochs:
            if not 1 <= epoch <= self.config.epochs:
                rule = f"expected gradient epochs in [1, {self.config.epochs}]"
                raise ValueError(f"{rule}, got {epoch}")
        edited = [run.name for run in self.runs if run.realization != "native"]
        if edited and self.config.contrastive != "proco":
            rule = f"expected native runs of {self.config.contrastive}, which has no gains to edit"
            raise ValueError(f"{rule}, got {edited[0]}")
        # Runs of one seed read the same images and must be neighbours in a stack.
        object.__setattr__(self, "runs", tuple(sorted(self.runs, key=lambda run: run.seed)))

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint of this job has, and one of another job has otherwise."""
        return super().identity() | {"stack": self.stack}

    def logged_at(self) -> dict[str, tuple[int, ...]]:
        """Return the epochs after which metrics beyond those of every epoch are logged, by name."""
        return {"gradient_error": self.gradient_epochs}
