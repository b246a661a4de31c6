"""Calls that are refused before any work: one line with the fact, status 2, nothing written.

In a call, {cifar} is a folder with CIFAR-10, {photos} a folder of images, {trained} the folder of a
training, {native} one of its networks, and {folder} the current folder.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cli.conftest import Shown
from resultant._core import tensor_files
from resultant.cli import main as cli
from resultant.features.store import write_store
from small_features import small_features

IMAGES = "train images --architecture test_resnet --size 32 --device cpu"
CIFAR = "train cifar-controlled --device cpu --imbalance 3 --data {cifar}"
NEW = "extract --out new.safetensors"
EXTRACT = "extract {native} --data {cifar} --out"
TEMPERATURE = "expected --temperature > 0 and finite, got"

# Calls, and facts as patterns.
CALLS = [
    ("dance", "expected a command, one of analyze, .* got 'dance'$"),
    ("predict nowhere x.csv", "expected a network, a classifier, .* got nothing at nowhere$"),
    ("predict {photos} x.csv", "the folder of train, tune or analyze with one, got a folder at"),
    ("analyse", "did you mean analyze[?]$"),
    ("probe a --seed x", "--seed.*'x'.* resultant probe --help"),
    ("probe a --epochs 0", "expected epochs >= 1, got 0"),
    ("analyze --temperatur 1", "--temperatur, .*Perhaps you meant: --temperature"),
    ("analyze --temperature 0", f"{TEMPERATURE} 0$"),
    ("compare a b --temperature nan", f"{TEMPERATURE} nan$"),
    ("compare a b --metric f1", r"'f1' .*'--metric'. Expected one of \('accuracy', 'balanced'\)"),
    ("extract x --split dev", r"'dev' .*'--split'. Expected one of \('val', 'test'\)"),
    ("tune --log x", r"'x' .*'--log'. Expected one of \('tensorboard', 'mlflow', 'wandb'\)"),
    ("analyze x.npz --fit-fraction 1", r"expected --fit-fraction in \(0, 1\), got 1"),
    ("analyze s3://x", "only --engine ray reads URLs, got s3://x"),
    ("analyze x --engine ray --fit-fraction .5", "no --fit-fraction with --engine ray"),
    ("analyze x --engine ray --drop-zero-rows", "no --drop-zero-rows with --engine ray"),
    ("analyze --engine ray", "a path or a pattern of Parquet files with --engine ray"),
    ("analyze --device gpu", "expected --device auto, cpu, cuda or cuda:N, got 'gpu'"),
    ("train", "cifar-controlled.* resultant train --help"),
    ("train images --arch x", "--architecture.* resultant train images --help"),
    ("train cifar-official --bogus 1", "resultant train --help"),
    ("train imagenet-lt --data . --subset 3", r"misplaced options: --subset \(applied to"),
    ("train imagenet-lt --data .", "expected the list"),
    ("train cifar-controlled", "expected datasets at --data, .* got nothing at {folder}/data"),
    (f"{CIFAR} --data nowhere", "expected cifar10 in nowhere as one of"),
    (f"{CIFAR} --device cuda:7", "expected a CUDA device cuda:7, got"),
    (f"{CIFAR} --seeds", "expected one or more values of --seeds, got none"),
    (f"{CIFAR} --gradient-epochs 201", r"expected gradient epochs in \[1, 200\], got 201"),
    (f"{CIFAR} --batch-size 99", "expected --batch-size of 33 or less, the number of"),
    (f"{CIFAR} --dataset imagenet-lt", "expected resnet32 for CIFAR and a larger architecture"),
    (f"{CIFAR} --realization exact", "invalid choice"),
    (IMAGES, "expected --data FOLDER, or --train-list and --images, got neither"),
    (f"{IMAGES} --data no", "Parquet files or a pattern of them, got nothing at no"),
    (f"{IMAGES} --train-list no/a.txt", "expected the list no/a.txt, got no such file"),
    (f"{IMAGES} --data {{photos}} --architecture resnet51", "an architecture of timm, such as"),
    (f"{IMAGES} --data {{photos}} --batch-size 4 --weights no", "of weights, got nothing at no"),
    (f"{IMAGES} --data {{photos}} --device mps", "--device auto, cpu, cuda or cuda:N, got 'mps'"),
    ("extract --model test_resnet --data . --out y.safetensors --device mps", "a Mac with a GPU"),
    (f"{IMAGES} --data {{photos}} --batch-size 12", "--batch-size of 11 or less, the number"),
    (f"{IMAGES} --data {{photos}} --long-tail 9", "which leaves an image per class, got 9"),
    (f"{IMAGES} --data . --pretrained --weights a", "pretrained or weights, got both"),
    ("extract --out y.safetensors", "the file of a network or --model NAME, got neither"),
    ("extract x.safetensors --model a --out y.safetensors", "a network or --model NAME, got both"),
    ("extract x.safetensors --pretrained --out y.safetensors", "--pretrained only with --model"),
    ("extract --model resnet51 --data . --out y.safetensors", "an architecture of timm, such as"),
    ("extract --model test_resnet --out y.safetensors", "expected --data FOLDER, or --train-list"),
    ("extract none --data {cifar} --out y.safetensors", "no file at none"),
    ("compare no.npz no.npz", "no such file"),
    (f"{NEW} {{native}}", "expected datasets at --data, .* got nothing at {folder}/data"),
    (f"{NEW} other-classes.safetensors --data {{cifar}}", "images of 7 classes, as the"),
    (f"{NEW} other-data.safetensors --data {{cifar}}", "expected cifar100 in {cifar} as"),
    (f"{NEW} broken.safetensors --data {{cifar}}", "expected the facts of a run in"),
    (f"{NEW} {{trained}} --data {{cifar}}", "expected one network in the folder"),
    (f"{NEW} {{trained}}/records.jsonl --data {{cifar}}", "a network, got records"),
    (f"{NEW} run", r"in the folder run, .* and 7 more: name one of them$"),
    ("compare {native} z.safetensors", "expected features, got a network.* resultant extract"),
    ("compare z.safetensors letter.txt", "letter.txt to be a folder or a file of feat"),
    ("compare more.safetensors other.safetensors", "one dataset in both, got places-lt in more.s"),
    ("analyze {native}", "expected features, got a network.* resultant extract"),
    ("probe {native}", "expected features, got a network.* resultant extract"),
    ("analyze one", "network: one/run/0.s.*; to read features, name their file: z.safetensors$"),
    ("analyze run", r"12 networks in the folder run: (\d+.safetensors,? ){{5}}and 7 more; "),
    ("probe z.safetensors --encoder unit", "called encoder for --encoder unit, got projection in"),
    ("probe train.safetensors", "features and labels of train and of test or val"),
    (f"{EXTRACT} {{native}}", "expected --out to differ from the input, got"),
    (f"{EXTRACT} link.safetensors", "expected --out to differ from the input, got"),
    (f"{EXTRACT} broken.safetensors", "expected --out that is not a network, got the network "),
    (f"{EXTRACT} letter.txt/x.safetensors", "expected --out to be a folder, got a file: "),
    (f"{EXTRACT} run.safetensors", "expected a file to write, got the folder "),
    ("analyze z.safetensors --features projektion", "among .* did you mean 'projection'"),
    ("compare z.safetensors z.safetensors --features projektion", "did you mean 'projection'"),
    ("analyze z.safetensors --labels labelz", "'labelz' among .* did you mean 'labels'"),
    ("compare z.safetensors z.safetensors --labels labelz", "'labelz' .* did you mean 'labels'"),
    ("analyze nan.safetensors", "train/projection of .* finite, got nan in row 9"),
    ("compare nan.safetensors z.safetensors", "train/projection of .* finite, got nan in row 9"),
    ("analyze zero.safetensors", r"got 3 of 151 rows, the first in row 7; --drop-zero-rows .*"),
    ("compare zero.safetensors z.safetensors", "got 3 of 151 rows, .* row 7; --drop-zero-rows"),
]


@pytest.fixture(scope="module")
def places(
    cifar: Path, photos: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Places by their names in a call; the current folder has networks, features and a text."""
    folder, native = tmp_path_factory.mktemp("here"), trained / "native-seed0.safetensors"
    tensors, about = tensor_files.load(native)
    encoder = {name: a for name, a in tensors.items() if not name.startswith("classifier.")}
    config = {**about["config"], "dataset": "cifar100"}
    for name, changed in (
        ("other-classes", {"num_classes": 7, "class_names": []}),
        ("other-data", {"config": config}),
        ("broken", {"run": {"colour": "red"}}),
    ):
        tensor_files.save(folder / f"{name}.safetensors", encoder, {**about, **changed})
    write_store(folder / "z.safetensors", small_features())
    for name, dataset in (("other", "imagenet-lt"), ("more", "places-lt")):
        write_store(folder / f"{name}.safetensors", small_features(), {"dataset": dataset})
    for name, rows, value in (("nan", [9], torch.nan), ("zero", [7, 20, 149], 0)):
        arrays = small_features()
        arrays["train/projection"][rows] = value
        save_file(arrays, folder / f"{name}.safetensors")
    train = {name: a for name, a in small_features().items() if "train" in name}
    save_file(train, folder / "train.safetensors")
    (folder / "letter.txt").write_text("not a network")
    os.link(native, folder / "link.safetensors")
    for path in ["one/run/0", *(f"run/{i}" for i in range(12))]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "broken.safetensors", folder / f"{path}.safetensors")
    shutil.copy(folder / "z.safetensors", folder / "one")
    (folder / "run.safetensors").mkdir()
    given = {"cifar": cifar, "photos": photos, "trained": trained, "native": native}
    return {"folder": folder, **given}


@pytest.mark.parametrize(("call", "fact"), CALLS, ids=[call for call, _ in CALLS])
def test_refused(
    call: str, fact: str, places: dict[str, Path], capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places["folder"])
    # Rows are refused in every chunk of a file.
    monkeypatch.setattr("resultant._core.memory.MATRIX_BYTES", 32 * 50)
    before = sorted(Path().rglob("*"))
    assert cli.main([word.format(**places) for word in call.split()]) == 2
    shown = capsys.readouterr()
    # Tyro frames and folds its usage errors.
    error = " ".join(re.sub("[│╭╮╰╯─]", " ", shown.err).split())
    assert re.search(fact.format(**places), error), error
    assert shown.out == "" and sorted(Path().rglob("*")) == before
