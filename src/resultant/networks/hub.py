"""Hugging Face hub, from which timm fetches pretrained weights, on machines without a network."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

# Seconds in which a host must answer; the hub itself tries for the better part of a minute.
ANSWER_SECONDS = 8.0


def hub_host() -> str:
    """Return the address of the hub."""
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def reachable(address: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Return True if a host accepts connections, or if a proxy connects to hosts."""
    if "https" in getproxies() or "all" in getproxies():
        return True
    parts, answered = urlsplit(address), threading.Event()
    port = parts.port or {"http": 80}.get(parts.scheme, 443)

    def connect() -> None:
        try:
            socket.create_connection((parts.hostname, port), seconds).close()
        except OSError:
            return
        answered.set()

    # A thread: the search for the address of a host has no timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()


@contextmanager
def cache_alone() -> Iterator[None]:
    """Let the hub read only its cache, as HF_HUB_OFFLINE=1 does for a whole process."""
    from huggingface_hub import constants

    # Any: the attribute is not part of the types of the package.
    settings: Any = constants
    before = settings.HF_HUB_OFFLINE
    settings.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        settings.HF_HUB_OFFLINE = before
