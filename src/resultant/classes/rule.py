r"""The rule by which classes are scored: temperature, realization, target gains and offset."""

from dataclasses import dataclass

from torch import Tensor

from resultant._core.validation import Number, finite_number

# The three edits of the gain, and all realizations.
EDITED = ("temperature", "preserve", "angular")
REALIZATIONS = ("native", *EDITED, "cosine")
FAMILIES = ("linear", "power")

# Realizations that move the temperature, which exists for positive gains and targets only.
TEMPERED = ("temperature", "preserve")


@dataclass(frozen=True, eq=False)
class Rule:
    r"""A way to score classes, independent of the classes.

    Rules are hashable and compare by value. `realize` checks the values of tensors.

    Args:
        tau: Temperature :math:`\tau_0` > 0, a number or one per class [C].
        realization: ``"native"``, ``"temperature"``, ``"preserve"``, ``"angular"`` or
            ``"cosine"``; see `resultant.class_scores`.
        beta: Strength of the target gain, from 0 (equal gains) to 1 (none); see `target_gain`.
        family: Family of target gains, ``"linear"`` or ``"power"``.
        offset: Numbers [C] added to the scores, such as :math:`\gamma\log\pi_c`.

    Example:
        >>> Rule(0.1, "angular", 0.5) == Rule(0.1, "angular", beta=0.5)
        True
    """

    tau: Number
    realization: str = "native"
    beta: float = 0.0
    family: str = "linear"
    offset: Tensor | None = None

    def __post_init__(self) -> None:
        if self.realization not in REALIZATIONS:
            rule = f"expected realization to be one of {REALIZATIONS}"
            raise ValueError(f"{rule}, got {self.realization!r}")
        if not isinstance(self.tau, Tensor) and not finite_number("tau", self.tau) > 0:
            raise ValueError(f"expected tau > 0 and finite, got {self.tau!r}")
        if not (self.offset is None or isinstance(self.offset, Tensor)):
            got = type(self.offset).__name__
            raise ValueError(f"expected offset to be a tensor [C] or None, got {got}")
        object.__setattr__(self, "beta", require_target(self.beta, self.family))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        values = vars(self).values()
        return tuple(
            (a.device, *a.flatten().tolist()) if isinstance(a, Tensor) else a for a in values
        )


def require_target(beta: float, family: str) -> float:
    """Return beta as a float; raise unless beta is finite and the family exists."""
    if family not in FAMILIES:
        raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
    return finite_number("beta", beta)
