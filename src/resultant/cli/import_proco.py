"""``resultant import-proco``: a checkpoint of ProCo's authors as safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from resultant._core.files import clean_folder, sync
from resultant.cli.arguments import require_output_file
from resultant.training.config import CIFAR


@dataclass(frozen=True)
class ImportProco:
    """Convert a checkpoint of ProCo's authors to safetensors, without running any code in it.

    Example:
      resultant import-proco ckpt.pth.tar proco.safetensors
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="CHECKPOINT")]]
    """The ckpt.pth.tar of the authors."""
    out: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="OUT")]]
    """The file to write; the name must end in .safetensors."""


def import_proco(options: ImportProco) -> None:
    """Convert a checkpoint and print its contents."""
    from rich.table import Table

    from resultant._core.tensor_files import require_name
    from resultant.cli.progress import open_console
    from resultant.training.proco_checkpoint import RECIPES, convert, is_converted

    out = options.out
    require_name(out)
    if is_converted(options.path, out):
        # A process may have been killed after it had renamed the file.
        clean_folder(out.parent, out.name)
        sync(out.parent)
        open_console().print(f"already converted: {out}", highlight=False, soft_wrap=True)
        return
    require_output_file(out, options.path)
    checkpoint = convert(options.path, out)
    _, dataset = RECIPES[checkpoint.num_classes]
    imbalance = "unknown; extract needs --imbalance or --balanced"
    if checkpoint.imbalance is not None:
        imbalance = f"{checkpoint.imbalance:g}, from the counts of a bank"
    weights = checkpoint.weights.items()
    number = sum(tensor.numel() for name, tensor in weights if "num_batches" not in name)
    accuracy = checkpoint.best_accuracy
    banks = {"old": checkpoint.old, "new": checkpoint.new}
    rows = {
        "network": f"{checkpoint.arch}, {checkpoint.classifier} classifier",
        "classes": checkpoint.num_classes,
        "dataset": dataset,
        **({"imbalance": imbalance} if dataset in CIFAR else {}),
        "dimension": checkpoint.dim,
        "weights": f"{number:,}",
        "epoch": "unknown" if checkpoint.epoch is None else checkpoint.epoch,
        "best accuracy": "unknown" if accuracy is None else f"{accuracy:.2f} %",
        **{
            f"bank {name}": "none" if bank is None else f"{int(bank.count.sum()):,} samples"
            for name, bank in banks.items()
        },
    }
    table = Table(title=str(out), title_justify="left", show_header=False)
    for name, value in rows.items():
        table.add_row(name, str(value))
    open_console().print(table)
