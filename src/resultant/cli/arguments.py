"""What the options of a command name: a device, a folder of data, a place to write to. Each is
looked at before any work."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from resultant._core.files import require_writable_file, require_writable_folder
from resultant._core.network_files import first_names, is_network, list_networks
from resultant.training.config import VARIABLE


def data_root(data: Path | None) -> Path:
    """Where data sets are looked for; it must be there."""
    root = data if data is not None else Path(os.environ.get(VARIABLE, "data"))
    if not root.exists() and data is None:
        rule = f"expected data sets at --data, at ${VARIABLE} or in ./data"
        raise ValueError(f"{rule}, got nothing at {root.absolute()}")
    return root


def find_device(name: str) -> torch.device:
    """The device of a name; auto is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"expected --device auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"expected a CUDA device {name}, got {torch.cuda.device_count()} devices")
    return device


def refuse_network(path: Path | str) -> None:
    """Raise if there are networks where features are expected."""
    networks, features = list_networks(path)
    if not networks:
        return
    if len(networks) == 1:
        got, mend = f"a network: {networks[0]}", "resultant extract writes its features"
    else:
        got = f"{len(networks)} networks in the folder {path}: {first_names(networks, path)}"
        mend = "resultant extract writes the features of one of them"
    if features:
        mend += f"; to read features that are there, name their file: {first_names(features, path)}"
    raise ValueError(f"expected features, got {got}; {mend}")


def destination(out: Path, source: Path) -> None:
    """Raise unless a file can be written to ``out``, which is not the ``source`` nor a network; its
    folder is made."""
    if out.exists() and source.exists() and out.samefile(source):
        raise ValueError(f"expected --out apart from what is read, got {out} for both")
    if is_network(out):
        raise ValueError(f"expected --out that is no network, got one: {out}")
    require_writable_folder(out.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    require_writable_file(out)
