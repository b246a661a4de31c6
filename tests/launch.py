"""The command ``resultant`` in a process of its own, with ImageNet-LT of four classes.

Torchvision is made to fit the torch that is here, as in conftest.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from resultant.cli import main
from resultant.data.lists import DATASETS
from torchvision_schemas import define_missing

NUM_CLASSES = 4


def small() -> None:
    """From here on ImageNet-LT has four classes."""
    DATASETS["imagenet-lt"] = replace(DATASETS["imagenet-lt"], num_classes=NUM_CLASSES)


if __name__ == "__main__":
    define_missing()
    small()
    sys.exit(main())
