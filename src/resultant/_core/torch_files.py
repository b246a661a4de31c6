"""Files of `torch.save`, loaded without executing anything, after a check of their checksums."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from resultant._core.text import one_line


def load_torch(path: Path, stand_ins: Sequence[tuple[Callable[..., Any], str]] = ()) -> Any:
    """Load a file of tensors, numbers, texts and collections; raise a ValueError for others, except
    for full names that have stand-ins, which are used in their place."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"another checksum of {damaged!r}: damaged")
        # Opened here: torch takes the kind of a file from its name.
        with path.open("rb") as file, torch.serialization.safe_globals(list(stand_ins)):
            return torch.load(file, map_location="cpu", weights_only=True)
    except (ValueError, OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        named = "" if name is None else f" ({one_line(name[1])[:80]})"
        raise ValueError(f"other objects{named}, which are never loaded") from None
    except Exception as error:
        # A broken pickle may run into any error.
        raise ValueError(one_line(error)[:200] or type(error).__name__) from None
