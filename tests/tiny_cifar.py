"""A few images in the shape of CIFAR or smaller, and jobs that train on them in a moment."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from resultant.training.config import Run
from resultant.training.job import Progress
from resultant_reproduction.cifar.data import Cifar
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.recipes.config import PaperConfig, preset


def tiny_cifar(num_classes: int = 4, each: int = 12, test: int = 5, size: int = 32) -> Cifar:
    """Noise on a colour per class, with ``each`` training and ``test`` test images per class.

    The name of the dataset is that of `tiny_config`.
    """
    generator = torch.Generator().manual_seed(7)
    colour = torch.randint(40, 216, (num_classes, 3, 1, 1), generator=generator)

    def images(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.arange(n * num_classes) % num_classes
        noise = torch.randint(-40, 40, (len(labels), 3, size, size), generator=generator)
        return (colour[labels] + noise).to(torch.uint8), labels

    names = tuple(f"class {c}" for c in range(num_classes))
    return Cifar(*images(each), *images(test), class_names=names, dataset="cifar10")


def write_cifar(folder: Path, train: int, test: int = 3) -> Path:
    """Write CIFAR-10 of few training and test images per class, as an .npz."""
    data = tiny_cifar(10, train, test)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    return folder


def one_thread() -> Iterator[None]:
    """Run a test on one thread: bit for bit holds for one number of threads (a fixture)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tiny_config(**changes: Any) -> PaperConfig:
    """29 images of four classes (12, 8, 5 and 4), three steps of eight per epoch."""
    small: dict[str, Any] = {
        "imbalance": 3.0,
        "dim": 8,
        "batch_size": 8,
        "epochs": 2,
        "learning_rate": 0.02,
        "precision": "float32",
    }
    return preset("cifar-controlled", **(small | changes))


DATA = tiny_cifar(each=6, size=8)
TWO = (Run("native", seed=1), Run("angular", 0.5, 0))


def config(**changes: Any) -> PaperConfig:
    """Two steps of six images per epoch."""
    return tiny_config(**({"batch_size": 6} | changes))


def joint_job(out: Path, **changes: Any) -> CifarJob:
    """Four epochs with a classifier and a third view; a checkpoint after every other epoch."""
    joint = config(objective="joint", classification_view=True, epochs=4, **changes)
    return CifarJob(joint, TWO, out, checkpoint_every=2)


def stop_after(epoch: int) -> Callable[[Progress], None]:
    """Interrupt a job after an epoch."""

    def stop(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    return stop


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
