"""Option types that commands share, and checks of the devices and paths that options name.

Torch is imported when a device is looked up, so that help and usage errors come at once.
"""

# Optional, and `several` values as a plain tuple: tyro imports typeguard, which takes .1 s, to
# check the default of X | None and of tuple[X, ...].

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import tyro

if TYPE_CHECKING:
    import torch

# The environment variable that names the folder of the datasets.
DATA_VARIABLE = "RESULTANT_DATA"


def shown_default(metavar: str, text: str) -> object:
    """Describe an option in the help whose default is None or empty."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {text})")


def several(kind: type | tuple[str, ...]) -> Any:
    """Return the type of an option that takes any number of values, of a type or of some words."""
    choices = kind if isinstance(kind, tuple) else None
    value = str if isinstance(kind, tuple) else kind
    word = value.__name__.upper() if choices is None else f"{{{','.join(choices)}}}"
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"[{word} [...]]",
        instance_from_str=lambda words: tuple(map(value, words)),
        is_instance=lambda values: isinstance(values, tuple),
        str_from_instance=lambda values: list(map(str, values)),
        choices=choices,
    )
    return Annotated[object, spec]


Data = Annotated[Optional[Path], shown_default("PATH", f"${DATA_VARIABLE}, else ./data")]
Features = Annotated[Optional[str], shown_default("NAME", "all")]
Labels = Annotated[Optional[str], shown_default("NAME", "inferred from the names")]
Workers = Annotated[Optional[int], shown_default("INT", "one per core")]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE")]
Estimator = Literal["mle", "proco", "banerjee", "corrected", "loo"]


def data_root(data: Path | None) -> Path:
    """Return the folder of the datasets, which must exist unless --data names it."""
    root = data if data is not None else Path(os.environ.get(DATA_VARIABLE, "data"))
    if not root.exists() and data is None:
        rule = f"expected datasets at --data, at ${DATA_VARIABLE} or in ./data"
        raise ValueError(f"{rule}, got nothing at {root.absolute()}")
    return root


def find_device(name: str) -> torch.device:
    """Return the device of a name; auto is a GPU if there is one."""
    import torch

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
    """Raise if a path where features are expected holds networks."""
    from resultant._core.network_files import first_names, list_networks

    networks, features = list_networks(path)
    if not networks:
        return
    got = f"a network: {networks[0]}"
    if len(networks) > 1:
        got = f"{len(networks)} networks in the folder {path}: {first_names(networks, path)}"
    advice = "resultant extract writes the features of a network"
    if features:
        advice += f"; to read features, name their file: {first_names(features, path)}"
    raise ValueError(f"expected features, got {got}; {advice}")


def require_output_file(out: Path, source: Path) -> None:
    """Make the folder of an output file; raise if the file cannot be written, or if ``out`` is the
    ``source`` or a network."""
    from resultant._core.files import make_folder, require_writable_file, require_writable_folder
    from resultant._core.network_files import is_network

    if out.exists() and source.exists() and out.samefile(source):
        raise ValueError(f"expected --out to differ from the input, got {out} for both")
    if is_network(out):
        raise ValueError(f"expected --out that is not a network, got the network {out}")
    require_writable_folder(out.parent)
    make_folder(out.parent)
    require_writable_file(out)
