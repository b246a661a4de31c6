"""The feature file that the package ships: CIFAR-100-LT, imbalance factor 100."""

import importlib.resources
from contextlib import AbstractContextManager
from pathlib import Path

PACKAGED = "cifar100-lt-if100"


def packaged_file() -> AbstractContextManager[Path]:
    """Return a context with the path of the packaged .safetensors store.

    Example:
        >>> from resultant.features import packaged_file
        >>> with packaged_file() as path:
        ...     print(path.name)
        cifar100-lt-if100.safetensors
    """
    file = importlib.resources.files("resultant") / "resources" / f"{PACKAGED}.safetensors"
    return importlib.resources.as_file(file)
