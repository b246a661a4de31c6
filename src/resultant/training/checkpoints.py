"""The files of a job: its checkpoint, from which it goes on, and each of its runs by itself."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from torch import Tensor

from resultant._core import distributed, tensor_files
from resultant._core.network_files import CHECKPOINT
from resultant._core.validation import DivergedError
from resultant.networks.models import StackedResNet32
from resultant.training.config import Run, TrainConfig
from resultant.training.log import read_metrics
from resultant.training.stack import LOWER, Stack

try:
    import fcntl
except ImportError:
    # There nothing is locked.
    fcntl = None

# Says, while a job is at work in a folder, whose it is.
IN_USE = ".in-use"
AFRESH = "give another folder to start afresh"
# The folders in which this process is at work.
HELD: set[Path] = set()


class Done(NamedTuple):
    """The epochs of a job that are done, their seconds, and the most jobs that were beside it."""

    epoch: int
    seconds: float
    beside: int


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """A folder in which no other job is at work while this one is; raise if there is one.

    The first of several processes holds the lock, which goes with it however it ends, and which
    processes that it starts do not have.
    """
    if fcntl is None or distributed.rank() > 0:
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    place = out.resolve()
    # The lock is the process's, which would get it twice.
    if place in HELD:
        raise _in_use(out, "this process")
    with _locked(out / IN_USE) as file:
        HELD.add(place)
        try:
            yield
        finally:
            HELD.remove(place)
            # While it is locked: another that waits for the name finds that it has gone.
            Path(file.name).unlink(missing_ok=True)


def _in_use(out: Path, holder: str) -> ValueError:
    rule = f"expected a folder that no other training writes to, got {out}"
    return ValueError(f"{rule}, in use by {holder}; wait until that ends, or give another folder")


def _locked(path: Path) -> TextIO:
    """The file, locked, with the name of this process in it."""
    assert fcntl is not None
    while True:
        file = path.open("a+")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.seek(0)
            holder = file.read() or "another process"
            file.close()
            raise _in_use(path.parent, holder) from None
        except OSError:
            # A file system without locks.
            return file
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        # It was removed by the one that held it.
        file.close()
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return file


def resume(out: Path, identity: dict[str, Any], stacks: list[Stack]) -> Done:
    """Load the job's checkpoint, if there is one, which must agree in ``identity``.

    The first process reads it, and the others have it from there: theirs may be other disks.
    """
    found = Done(0, 0.0, 0)
    if distributed.rank() == 0 and (out / CHECKPOINT).exists():
        found = _load(out / CHECKPOINT, identity, stacks)
    done = torch.tensor(found, dtype=torch.float64, device=stacks[0].device)
    distributed.broadcast_from_rank0(
        done, *(a for stack in stacks for a in stack.tensors().values())
    )
    epoch, seconds, beside = done.tolist()
    return Done(int(epoch), seconds, int(beside))


def _load(path: Path, identity: dict[str, Any], stacks: list[Stack]) -> Done:
    try:
        tensors, about = tensor_files.load(path)
    except ValueError as error:
        raise ValueError(f"{error}; {AFRESH}") from None
    if isinstance(about.get("config"), dict):
        # What was no setting yet had the value that is now the default.
        about["config"] = json.loads(json.dumps(asdict(TrainConfig()))) | about["config"]
    mine = json.loads(json.dumps(identity))
    for part, value in mine.items():
        if about.get(part) != value:
            odd = _difference(part, value, about.get(part))
            raise ValueError(f"expected the checkpoint of this job, {odd} in {path}; {AFRESH}")
    for i, stack in enumerate(stacks):
        mark = f"{i}."
        stack.load({k.removeprefix(mark): a for k, a in tensors.items() if k.startswith(mark)})
    return Done(*(about[name] for name in Done._fields))


def _difference(part: str, mine: Any, got: Any) -> str:
    """In what the checkpoint of another job differs: of settings and runs those that do."""
    if part == "images":
        return f"on the same images ({mine[:12]}), got one on others ({str(got)[:12]})"
    if part == "runs":
        others = got if isinstance(got, list) else []
        lacking, more = (
            [_name(run) for run in these if run not in those]
            for these, those in ((mine, others), (others, mine))
        )
        odd = [f"{word} {', '.join(n)}" for word, n in (("without", lacking), ("with", more)) if n]
        return f"got one {' and '.join(odd) or 'with its runs in another order'}"
    if isinstance(mine, dict) and isinstance(got, dict):
        odd = sorted(k for k in mine | got if got.get(k) != mine.get(k))
        mine, got = ({k: d.get(k) for k in odd} for d in (mine, got))
    return f"{part} {mine}, got {got}"


def _name(facts: Any) -> str:
    """What a run of a checkpoint is called; of one that is none, what there is."""
    known = isinstance(facts, dict) and facts.keys() == asdict(Run()).keys()
    return Run(**facts).name if known else str(facts)


def require_metrics(
    path: Path, runs: Sequence[Run], name: str, epochs: Sequence[int], mend: str
) -> None:
    """Raise unless metrics.jsonl has the values ``name`` of all runs after ``epochs``, which are
    past and add nothing any more; ``mend`` is what can be done."""
    known = {(row["run"], row["epoch"]) for row in read_metrics(path) if name in row}
    lacking = [str(e) for e in epochs if any((run.name, e) not in known for run in runs)]
    if lacking:
        rule = f"expected {name} of all runs after epoch {', '.join(lacking)} in {path}"
        got = "a job that is past that without"
        raise ValueError(f"{rule}, got {got}; {mend}, or start afresh in another folder")


def save(out: Path, identity: dict[str, Any], done: Done, stacks: list[Stack]) -> None:
    """Write the job's checkpoint, unless a run has diverged."""
    tensors = {f"{i}.{k}": a for i, stack in enumerate(stacks) for k, a in stack.tensors().items()}
    for name, a in tensors.items():
        # The last step may be the one that diverged, after a loss that was finite.
        if not a.isfinite().all():
            rule = f"expected finite values ({LOWER})"
            raise DivergedError(f"{rule}, got others in {name} after epoch {done.epoch}")
    tensor_files.save(out / CHECKPOINT, tensors, {**identity, **done._asdict()})


def save_run(
    path: str | os.PathLike[str], config: TrainConfig, run: Run, stack: Stack, place: int
) -> None:
    """One run of a stack by itself: its network, and its banks as ``bank.old`` and ``bank.new``."""
    weights = stack.network.state_dict()
    if isinstance(stack.network, StackedResNet32):
        weights = {name: a[place] for name, a in weights.items()}
    banks = {f"bank.{name}": getattr(stack.proco.bank, name)[place] for name in ("old", "new")}
    classes = stack.proco.bank.num_classes
    about = {"config": asdict(config), "run": asdict(run), "num_classes": classes}
    tensor_files.save(path, weights | banks, about)


def one_run(
    tensors: dict[str, Tensor], about: dict[str, Any], wanted: str | None, where: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Of a job's checkpoint what `save_run` would write of the run ``wanted``, or of the only one;
    ``where`` says what was asked for."""
    runs = {Run(**facts).name: facts for facts in about["runs"]}
    names = list(runs)
    if wanted is None and len(names) == 1:
        wanted = names[0]
    if wanted not in runs:
        rule = f"expected one of {', '.join(names)} behind {CHECKPOINT} and a colon"
        raise ValueError(f"{rule}, got {where}")
    stack, place = divmod(names.index(wanted), about["stack"])
    network, bank = f"{stack}.network.", f"{stack}.proco.bank."
    found = {k.removeprefix(network): a for k, a in tensors.items() if k.startswith(network)}
    if about["config"]["architecture"] == "resnet32":
        found = {k: a[place] for k, a in found.items()}
    for name in ("old", "new"):
        found[f"bank.{name}"] = tensors[bank + name][place]
    facts = {key: about[key] for key in ("config", "epoch")}
    return found, facts | {"run": runs[wanted], "num_classes": len(found["bank.old"])}
