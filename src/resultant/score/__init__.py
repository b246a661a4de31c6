"""The exact score of a query, its slope and gradients.

Functions of the cosine, concentration and temperature of a class; this room knows no classes.
`exact` computes scores, `limits` checks their arguments, `kernel` holds the parts of the Triton
kernel that other kernels use.

Conventions: arguments are tensors or numbers and broadcast; results keep dtype and device, bfloat16
and float16 are computed in float32. An argument outside its stated shape, dtype or range is a
ValueError that names the first bad value. The values of tensors are checked by default on the CPU
only, where the check costs no synchronisation; ``validate_args=True`` checks them on every device,
``validate_args=False`` on none.
"""

from resultant.score.exact import (
    Decomposition,
    ambient_gradient,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)

__all__ = [
    "Decomposition",
    "ambient_gradient",
    "decompose",
    "tangent_gradient",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
