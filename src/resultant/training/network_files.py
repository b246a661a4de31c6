"""Files and folders that hold trained networks, recognized by the headers of `tensor_files.save`; a
single run of a checkpoint is named after a colon: ``out/checkpoint.safetensors:native-seed0``."""

import os
from collections.abc import Sequence
from pathlib import Path

from resultant._core.tensor_files import read_metadata
from resultant._core.text import listed
from resultant.features.naming import Location, is_shown

# The checkpoint of a training job; it holds the networks of all runs.
CHECKPOINT = "checkpoint.safetensors"
# The network of the epoch that was best on validation images, in the folder of a training.
BEST = "best.safetensors"
# Files in the folder of a tuned network that predict; it may have no classifier of features.
NETWORK, CLASSIFIER = "network.safetensors", "classifier.safetensors"
# Entries of the JSON object of a network: of a training, or of a converted checkpoint.
NETWORKS = frozenset(("config", "proco"))


def split_run(path: Location) -> tuple[Path, str | None]:
    """Split ``FILE.safetensors:RUN`` into the file and the name of the run, None without one."""
    file, _, run = os.fspath(path).rpartition(":")
    if file.endswith(".safetensors") and not Path(path).exists():
        return Path(file), run
    return Path(path), None


def is_network(path: Location) -> bool:
    """Return True for the file of a network, False for features and for any other path."""
    file = split_run(path)[0]
    return file.suffix == ".safetensors" and not NETWORKS.isdisjoint(read_metadata(file) or ())


def find_network(path: Location) -> Path | None:
    """Find the network of a file, or the only one in a folder; None without one.

    That of a folder of ``resultant tune`` is the one that predicts.
    """
    if is_network(tuned := Path(path) / NETWORK):
        return tuned
    networks, features = list_networks(path)
    if not networks:
        return None
    if len(networks) > 1 or features:
        got = first_names([*networks, *features], path)
        raise ValueError(f"expected one network in the folder {path}, got {got}: name one of them")
    return networks[0]


def list_networks(path: Location) -> tuple[list[Path], list[Path]]:
    """List the networks of a path, and the other safetensors files of a folder."""
    path = Path(path)
    if path.suffix == ".jsonl":
        raise ValueError(f"expected features or a network, got records: {path}")
    if not path.is_dir():
        return ([path] if is_network(path) else []), []
    # Hidden folders are those of files that are being written.
    files = sorted(file for file in path.rglob("*.safetensors") if is_shown(file, path))
    networks = [file for file in files if is_network(file)]
    # A finished job has a file for each network, and the checkpoint repeats them.
    finished = [file for file in networks if file.name not in (CHECKPOINT, BEST)] or networks
    # Other files of this package, such as those of decoded images, hold no features.
    return finished, [file for file in files if read_metadata(file) is None]


def first_names(files: Sequence[Path], folder: Location) -> str:
    """Name the first five files below a folder, and count the others."""
    return listed((str(file.relative_to(folder)) for file in files), 5)
