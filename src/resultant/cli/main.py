"""The entry point of ``resultant``: find the command, parse its options, run it, explain errors."""

from __future__ import annotations

import atexit
import gc
import inspect
import io
import os
import pkgutil
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from difflib import get_close_matches
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from resultant._core.termination import TerminatedError, terminable
from resultant._core.text import one_line, shortened
from resultant._version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OK, FAILED, WRONG_USE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# The extra of the package that installs a module.
EXTRAS = {"torchvision": "vision", "timm": "vision", "PIL": "vision", "ray": "ray"}
# Errors that a user can correct.
MISTAKES = (ValueError, FileNotFoundError, FileExistsError)
MISTAKES += (IsADirectoryError, NotADirectoryError, PermissionError)


class Command(NamedTuple):
    """A subcommand; modules are imported when a command is named, and torch when it runs."""

    options: str  # module:name of a dataclass, whose docstrings are the help
    target: str  # module:name of a function of the options, which returns an exit status or None
    summary: str  # a few words for the help


COMMANDS = {
    name: Command(f"resultant.cli.{file}:{name.title()}", f"resultant.cli.{file}:{name}", summary)
    for file, name, summary in (
        ("analyze", "analyze", "the best classifier, and labels that look wrong"),
        ("compare", "compare", "which of two feature sets is better"),
        ("train", "train", "train a network on a folder of images"),
        ("extract", "extract", "the features of images, by any timm network"),
        ("tune", "tune", "tune a pretrained network to a folder of pictures"),
        ("predict", "predict", "the classes of new pictures or features"),
        ("export", "export", "a network and its classifier as ONNX, or for timm"),
        ("sums", "sums", "a classifier of feature files that can grow"),
        ("sums", "merge", "the sums of several machines as one"),
        ("sums", "forget", "sums without rows, or without classes"),
    )
}
# Options that few need, by command: --help leaves them out, --help-all shows them.
IMAGES = "val-list images class-names held-out split-seed image-column label-column skip-broken "
IMAGES += "allow-outside "
SCORES = "features temperature estimator skip-unlabelled skip-unknown-classes figures quiet "
LOSSES = "alpha contrastive-weight prior beta weight-decay warmup dim temperature workers "
LOSSES += "precision weights " + IMAGES
RARE = {
    "analyze": SCORES + "fit-fraction",
    "compare": SCORES,
    "extract": IMAGES + "long-tail subset-seed dtype workers",
    "predict": "top image-column skip-broken workers images",
    "tune": LOSSES + "averaging drop-path crop colour patience references accumulate seed",
    "train": LOSSES + "store delete-store checkpoint-every test-every tensorboard subset-seed mean "
    "std classifier-prior family estimator leave-out no-classification-view classifier-views "
    "momentum schedule milestones clip long-tail",
}
# Entry points of other distributions, such as the reproduction of the paper.
GROUP = "resultant.commands"
REPRODUCTION = ("import-proco", "probe", "verify", "reproduce")


def execute() -> NoReturn:
    """Run the command line and end the process."""
    # Before torch is imported. Waiting threads that spin slow down everything on a busy machine;
    # without huge pages an analysis of thousands of classes spends a tenth of its time on faults.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    # The libraries make a million objects that live to the end: the collector spends a third of the
    # time of an import on them, and again when the process ends.
    gc.set_threshold(100_000, 50, 1000)
    status = FAILED
    # Registered first and called last: libraries that check their memory at the end of the
    # interpreter would print thirty lines behind an error of one.
    atexit.register(lambda: os._exit(status))
    status = main()
    with suppress(OSError):
        if sys.stdout is not None:
            # An error is reported already.
            sys.stdout.flush()
    sys.exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit status; an error is one line on standard error."""
    try:
        with terminable():
            status = run(sys.argv[1:] if argv is None else argv)
        if sys.stdout is not None:
            # Here, where an error of the output can still be reported.
            sys.stdout.flush()
        return status
    except BaseException as error:
        explained = explain(error)
        if explained is None:
            raise
        status, message = explained
        if message:
            # One of several processes of torchrun names its rank.
            several = os.environ.get("WORLD_SIZE", "1") != "1"
            rank = f"rank {os.environ.get('RANK')}: " if several else ""
            print(f"resultant: {rank}{message}", file=sys.stderr)
        return status


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; return the exit status."""
    name, *rest = arguments or ("",)
    if name in ("-h", "--help", "--version", ""):
        text = __version__ if name == "--version" else usage()
        print(text, file=sys.stdout if name else sys.stderr)
        return OK if name else WRONG_USE
    import tyro

    try:
        if name.startswith("--tyro-"):
            commands = all_commands().items()
            kinds = {key: pkgutil.resolve_name(c.options) for key, c in commands if c.options}
            parse(partial(tyro.extras.subcommand_cli_from_dict, kinds), "resultant", arguments)
            return OK
        command = find_command(name)
        kind = pkgutil.resolve_name(command.options)
        call = partial(tyro.cli, kind, description=inspect.getdoc(kind))
        options = parse(call, f"resultant {name}", rest)
    except SystemExit as stop:
        # After the help, and after a usage error.
        return stop.code if isinstance(stop.code, int) else OK
    return pkgutil.resolve_name(command.target)(options) or OK


@cache
def plugins() -> dict[str, EntryPoint]:
    """Return the commands of other distributions by name, not loaded."""
    from importlib.metadata import entry_points

    return {e.name: e for e in entry_points(group=GROUP) if e.name not in COMMANDS}


def find_command(name: str) -> Command:
    """Return a command; raise a ValueError if there is none, or if a plugin cannot be loaded."""
    if name in COMMANDS:
        return COMMANDS[name]
    if name in plugins():
        entry = plugins()[name]
        try:
            return entry.load()
        except Exception as error:
            got = f"{type(error).__name__}: {message_of(error)}"
            raise ValueError(f"expected {entry.value} to load for {name}, got {got}") from None
    names = [*COMMANDS, *plugins()]
    close = "".join(f"; did you mean {match}?" for match in get_close_matches(name, names, 1))
    if name in REPRODUCTION:
        close = "; it comes with the reproduction of the paper: pip install ./reproduction"
    raise ValueError(f"expected a command, one of {', '.join(names)}, got {name!r}{close}")


def all_commands() -> dict[str, Command]:
    """Return all commands; a plugin that cannot be loaded has no options, and says so."""
    commands = dict(COMMANDS)
    for name in plugins():
        try:
            commands[name] = find_command(name)
        except ValueError as error:
            commands[name] = Command("", "", f"not available: {error}")
    return commands


def parse(call: Callable[..., Any], prog: str, arguments: Sequence[str]) -> Any:
    """Parse arguments with a parser of tyro."""
    from tyro import conf

    whole = "--help-all" in arguments
    arguments = ["--help" if a == "--help-all" else a for a in arguments]
    # An option is named after its field, also in a nested dataclass.
    config = conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes, conf.CascadeSubcommandArgs
    # --no-evaluate switches off what is on, and nothing else has a --no-twin.
    config += (conf.FlagCreatePairsOff,)
    errors, shown = io.StringIO(), io.StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(shown):
            return call(prog=prog, args=arguments, config=config)
    finally:
        help_asked = {"-h", "--help"} & set(arguments)
        text = shown.getvalue()
        print(
            wrapped(text if whole else shortened_help(text, prog)) if help_asked else text, end=""
        )
        # Tyro names the help of a subcommand without the command.
        own = rf"in resultant (\S+ --help) {{0,{len(prog) - len('resultant')}}}"
        print(re.sub(own, rf"in {prog} \1", errors.getvalue()), end="", file=sys.stderr)


def wrapped(text: str) -> str:
    """Wrap the paragraphs of a help at the width of the terminal, which tyro does in boxes alone;
    words on indented lines stay where they are."""
    width = shutil.get_terminal_size().columns
    paragraphs = text.split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        # A usage line too; the script of a completion has other words.
        if re.match(r"[A-Z]", paragraph) and not re.search(r"^[ ╭│]", paragraph, re.M):
            paragraphs[i] = textwrap.fill(paragraph, width, break_on_hyphens=False)
    return "\n\n".join(paragraphs)


def shortened_help(text: str, prog: str) -> str:
    """Leave the options of `RARE` out of a help, and say how many they are."""
    rare = {f"--{name}" for name in RARE.get(prog.split()[1], "").split()}
    kept, left_out, skipping = [], 0, False
    for line in text.splitlines():
        if option := re.match(r"[ │] {1,2}(-[\w-]+)", line):
            skipping = option[1] in rare
            left_out += skipping
        elif not re.match(r"[ │] {8,}\S", line):
            skipping = False
        if not skipping:
            kept.append(line)
    if left_out:
        command = " ".join(prog.split()[:2])
        kept.append(f"{left_out} more options: {command} --help-all")
    return "\n".join(kept) + "\n"


def usage() -> str:
    """Return the text of ``resultant --help``."""
    summaries = {name: command.summary for name, command in all_commands().items()}
    width = max(map(len, summaries))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in summaries.items())
    return f"""\
usage: resultant COMMAND [OPTIONS]

Find the best classifier for your embeddings, the labels that look
wrong, and the classes of new pictures. Begin with: resultant analyze

commands:
{lines}

resultant COMMAND --help        options of a command
resultant --version             version
resultant --tyro-print-completion SHELL
                                completion for bash, zsh or fish

exit status: 0 done, 1 failed, 2 bad input, 130 interrupted,
             143 terminated"""


def explain(error: BaseException) -> tuple[int, str] | None:
    """Return the exit status and the message of an error; None for a defect of the program."""
    text = message_of(error)
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        install = f"expected {module}: pip install 'resultant[{EXTRAS.get(module)}]'"
        return (WRONG_USE, install) if module in EXTRAS else None
    if isinstance(error, MISTAKES):
        return WRONG_USE, text
    if isinstance(error, OSError):
        # As with ``| head``: nobody reads on.
        return FAILED, "" if isinstance(error, BrokenPipeError) else text
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ": ".join(("interrupted", *map(str, error.args)))
    if isinstance(error, TerminatedError):
        # torchrun ends the other processes this way after one has failed and printed why.
        silent = not error.args and "RANK" in os.environ
        return TERMINATED, "" if silent else ": ".join(("terminated", *map(str, error.args)))
    full = type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and full):
        remedy = "reduce the rows, --batch-size, --stack or --workers"
        return FAILED, f"expected more memory, got: {text.partition('. ')[0]}; {remedy}"
    if isinstance(error, RuntimeError) and "by peer" in text:
        lost = "expected all processes of the job to live, got one that was lost"
        return FAILED, f"{lost}; rerun the same command"
    return None


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line of bounded length, with the name of its file."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        message = f"expected a file, got nothing at {error.filename}"
    elif isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f": {error.filename}"
        message = f"{error.strerror}{where}"
    else:
        message = str(error) or type(error).__name__
    return shortened("; ".join(filter(None, (one_line(message), getattr(error, "remedy", "")))))
