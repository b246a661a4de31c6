"""``python -m torture``: run all kinds for a time and print every failure."""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import tyro

from torture import files, kills

# A kind yields, trial after trial, a description and the failure, or an empty text.
KINDS = {"files": files.trials, "kills": kills.trials}


def main(
    kinds: tyro.conf.Positional[tuple[Literal[tuple(KINDS)], ...]] = (),  # pyright: ignore
    minutes: float = 5,
    seed: int = int(time.time()),
) -> int:
    """Run all kinds for a time and print every failure.

    Args:
        kinds: Kinds of trials; all by default.
        minutes: For all kinds together.
        seed: Of all choices.
    """
    chosen, failures = kinds or tuple(KINDS), 0
    print(f"seed {seed}: {', '.join(chosen)}", flush=True)
    for name in chosen:
        end = time.monotonic() + 60 * minutes / len(chosen)
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            trials, wrong = 0, 0
            for text, failure in KINDS[name](Path(folder), random.Random(seed)):
                trials += 1
                if failure:
                    wrong += 1
                    print(f"FAILED {name}, {text}: {failure}", flush=True)
                if time.monotonic() > end:
                    break
        print(f"{name}: {trials:,} trials, {wrong or 'no'} failures", flush=True)
        failures += wrong
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
