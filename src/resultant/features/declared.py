"""The most that a file may declare: half of the memory."""

import os
from contextlib import suppress
from pathlib import Path

# Limits of containers, by the second and the first version of control groups.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory() -> int:
    """Return the bytes of memory of the machine, or of the container if it has fewer."""
    sizes = []
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in LIMITS:
        # "max" is no number: there is no limit.
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min(sizes, default=8 << 30)


def require_content(size: int, what: str) -> None:
    """Raise a ValueError if the header of a file declares more bytes than half of the memory."""
    limit = total_memory() // 2
    if size > limit:
        rule = f"{size:,} bytes of {what}, beyond half of the memory ({limit:,} bytes)"
        remedy = "write it in shards, or as .npy or .safetensors, which are mapped"
        raise ValueError(f"{rule}; {remedy}")
