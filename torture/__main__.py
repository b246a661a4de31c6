"""``python -m torture``: run all kinds for a time and print every failure."""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from torture import files, kills

# A kind yields, trial after trial, a description and the failure, or an empty text.
KINDS = {"files": files.trials, "kills": kills.trials}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; default all")
    parser.add_argument("--minutes", type=float, default=5, help="for all kinds together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all choices")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"expected kinds among {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    chosen, failures = options.kinds or list(KINDS), 0
    print(f"seed {options.seed}: {', '.join(chosen)}", flush=True)
    for name in chosen:
        end = time.monotonic() + 60 * options.minutes / len(chosen)
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            trials, wrong = 0, 0
            for text, failure in KINDS[name](Path(folder), random.Random(options.seed)):
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
    sys.exit(main())
