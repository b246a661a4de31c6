"""Parts of the score kernel for kernels of other folders; importing this module needs Triton."""

from resultant.score._triton import _constants as constants
from resultant.score._triton import _difference as difference
from resultant.score._triton import _tilt as tilt

__all__ = ["constants", "difference", "tilt"]
