"""Build of the compiled kernel with the package, where there is a C compiler.

The kernel is plain C, called through ctypes, so that one library serves every version of Python and
torch. Without a compiler the package is built without the kernel, and computes in torch alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "src" / "resultant" / "special"
# No option changes the meaning of the arithmetic; products and sums may be contracted. Scheduling
# before the choice of registers would copy sums, which are registers already.
OPTIONS = (
    "-O3 -std=gnu11 -fPIC -shared -fvisibility=hidden -fopenmp-simd "
    "-ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-schedule-insns"
)


def build(target: Path) -> bool:
    """Compile the kernel to ``target``; if that fails, remove it and return False, with a
    message."""
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or "gcc"]
    sources = [str(FOLDER / f"_kernel_{name}.c") for name in ("f64", "f32")]
    # `special/compiled.py` computes the same, and does not load a library of other sources.
    texts = b"".join(path.read_bytes() for path in sorted(FOLDER.glob("_kernel*.[ch]")))
    checksum = f"-DSOURCES={zlib.crc32(texts)}"
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    command = [*compiler, *OPTIONS.split(), checksum, "-o", str(temporary), *sources, "-lm"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
        temporary.replace(target)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        print(f"resultant is built without its compiled kernel: {reason}", file=sys.stderr)
        temporary.unlink(missing_ok=True)
        # A library of an earlier build must not get into a wheel for any platform.
        target.unlink(missing_ok=True)
        return False
    return True


class KernelBuild(BuildHookInterface):
    """Adds the kernel to wheels, and builds it in place for editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        target = FOLDER / "_kernel.shared"
        if self.target_name == "wheel" and build(target):
            # Such as linux-x86_64 and macosx-11.0-arm64.
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"
            build_data["pure_python"] = False
            build_data["artifacts"].append("src/resultant/special/_kernel.shared")
