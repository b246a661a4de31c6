"""The command ``resultant`` in a process of its own, with ImageNet-LT of four classes.

Torchvision is made to fit the torch that is here, as in conftest. With STOP in the environment a
job of several processes is interrupted after its first epoch.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from resultant.cli.main import main
from resultant.images.lists import DATASETS
from torchvision_schemas import define_missing

NUM_CLASSES = 4


def small() -> None:
    """From here on ImageNet-LT has four classes."""
    DATASETS["imagenet-lt"] = replace(DATASETS["imagenet-lt"], num_classes=NUM_CLASSES)


def stop(self: Any, progress: Any) -> None:
    # The one that writes, when it has written.
    if os.environ["RANK"] == "0":
        raise KeyboardInterrupt


if __name__ == "__main__":
    define_missing()
    small()
    if "STOP" in os.environ:
        from resultant.cli.progress import EpochProgress

        EpochProgress.__call__ = stop
    sys.exit(main())
