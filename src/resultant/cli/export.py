"""``resultant export``: a network and its classifier for other programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Optional

import tyro

from resultant.cli import arguments
from resultant.cli.arguments import shown_default


@dataclass(frozen=True)
class Export:
    """Write a network for other programs: as ONNX with its classifier, or its weights for timm.

    The model is a network that train has trained, the folder of tune, or a classifier that analyze
    has saved, with its network.

    Examples:
      resultant export out/tune --out model.onnx
      resultant export out/tune --out weights.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="MODEL")]]
    """A network, the folder of tune, or classifier.safetensors of analyze."""
    out: Path
    """The file to write: .onnx, or .safetensors for timm."""
    network: arguments.OptionalPath = None
    """The network whose features a classifier reads."""
    timm: arguments.NetworkOptions = field(default_factory=arguments.NetworkOptions)
    """A timm network in its place."""
    features: Annotated[
        Optional[str],
        arguments.one_of("encoder", "projection"),
        shown_default("NAME", "those that fit"),
    ] = None
    """The output of the network that a classifier reads."""


def export(options: Export) -> None:
    """Write the file, and print the line of code that reads it."""
    from resultant.cli.progress import PlainConsole
    from resultant.training.export import export as write
    from resultant.training.predict import load_model

    network = options.timm.instead_of(options.network, PlainConsole(stderr=True))
    model = load_model(options.path, network, options.features)
    arguments.require_output_file(options.out, options.path)
    console = PlainConsole()
    console.print(write(model, options.out), soft_wrap=True)
