"""Mutations of files: of bytes, and of the structure of zip, gzip, safetensors, npy and JSON."""

import ast
import gzip
import io
import json
import os
import pickle
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = (0, 1, 7, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 10**9, 2**40, 2**63 - 1, 2**64 - 1)
DEEP = "[" * 100_000 + "]" * 100_000
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "x"),
    *("../../up", "/etc/passwd", "=1+1", "[/x]", "\x1b[31m", "\ud800", "\u202e", "1" * 100_000),
    *([], {}, [[]], [1, "a", None], {"": {}}, list(range(2000))),
)
# Texts that mean something to a reader, a terminal, a page or a table.
TEXTS = (
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"\x1b[2J", b"[/evil]", b"<script>", b"=cmd", b"nan"),
    # Of these a regular expression may try every part.
    *(b"1" * 5000 + b"a", b"1-" * 5000 + b"a", b" " * 50_000),
    *(b"1e999", b"-0", b"../../../x", b'"', b"\r", b"\n\n", b",", b"{}", DEEP.encode()[:200_000]),
)


# Made by a pickle that is loaded.
EXECUTED = Path("/tmp/executed-by-pickle")


class Executed:
    """An object whose pickle makes a folder when it is loaded."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(EXECUTED),)


PICKLE = pickle.dumps(Executed())
# Code, hashing without an end, an object of any size, many instructions, deep nesting.
PICKLES = (
    PICKLE,
    b"\x80\x02})" + b"q\x00h\x00\x86" * 40 + b"K\x01s.",
    b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    b"\x80\x02](" + b"K\x01" * (1 << 22) + b"e.",
    b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a file in one to three places, by its structure or byte by byte."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        structured = next((change for known, change in STRUCTURES if known(data)), None)
        if structured is not None and rng.random() < 0.6:
            try:
                data = structured(data, rng)
                continue
            except Exception:
                # Broken by an earlier change.
                pass
        data = change_bytes(data, rng)
    return data


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, move or overwrite bytes."""
    if not data:
        return rng.choice(TEXTS)
    # Headers and footers more often than the middle.
    end = rng.randrange(min(len(data), 200))
    i = rng.choice((rng.randrange(len(data)), end, len(data) - 1 - end))
    j = min(len(data), i + rng.choice((1, 4, 8, 64, len(data))))
    number = rng.choice(SIZES)
    packed = number.to_bytes(8, rng.choice(("little", "big")))[: rng.choice((4, 8))]
    return rng.choice(
        (
            data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1 :],
            data[:i],
            data[:i] + data[j:],
            data[:j] + data[i:j] + data[j:],
            data[:i] + bytes(j - i) + data[j:],
            data[:i] + rng.randbytes(min(j - i, 64)) + data[j:],
            data[:i] + packed + data[i + len(packed) :],
            data[:i] + rng.choice(TEXTS) + data[i:],
            data + data,
            data[j:] + data[:j],
        )
    )


def change_json(value: Any, rng: random.Random) -> Any:
    """Replace, delete or repeat an entry somewhere in a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        inner, how = dict(value), rng.random()
        if how < 0.1:
            del inner[name]
        elif how < 0.2:
            inner[str(rng.choice(VALUES))[:200]] = inner.pop(name)
        else:
            inner[name] = change_json(value[name], rng)
        return inner
    if isinstance(value, list) and value and rng.random() < 0.7:
        i = rng.randrange(len(value))
        return [*value[:i], change_json(value[i], rng), *value[i + 1 :]]
    if isinstance(value, str) and value[:1] == "{" and rng.random() < 0.8:
        return json.dumps(change_json(json.loads(value), rng))
    if isinstance(value, int) and rng.random() < 0.6:
        return rng.choice((value + 1, value - 1, -value, value * 2**20, rng.choice(SIZES)))
    return rng.choice(VALUES)


def dump(value: Any, rng: random.Random) -> bytes:
    text = json.dumps(value)
    how = rng.random()
    if how < 0.05:
        text = text.replace(rng.choice(('"', ":", "1", "e")), DEEP, 1)
    elif how < 0.1 and text.startswith("{") and "," in text:
        text = "{" + text[1 : text.index(",")] + "," + text[1:]  # a name twice
    return text.encode("utf-8", "surrogatepass")


def change_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines()
    i = rng.randrange(len(lines))
    lines[i] = dump(change_json(json.loads(lines[i]), rng), rng)
    return b"\n".join(lines) + b"\n"


def change_safetensors(data: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = dump(change_json(json.loads(data[8 : 8 + length]), rng), rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def change_npy(data: bytes, rng: random.Random) -> bytes:
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode().strip())
    how = rng.randrange(4)
    if how == 0:
        shape = list(header["shape"]) or [1]
        shape[rng.randrange(len(shape))] = rng.choice((*SIZES, -1, "a", 2**70))
        header["shape"] = tuple(shape[: rng.randint(0, 3)] if rng.random() < 0.2 else shape)
    elif how == 1:
        kinds = ("|O", "<U1000000", "<f2", "<c16", "|V8", "<M8[D]", "|S0", "<i8", ">f4", "f999")
        header["descr"] = rng.choice(kinds)
    elif how == 2:
        header["fortran_order"] = rng.choice((True, 1, "yes", None))
    else:
        header[rng.choice(("descr", "shape", "other"))] = rng.choice(VALUES)
    body = PICKLE if header.get("descr") == "|O" else data[10 + length :]
    text = repr(header).encode("utf-8", "replace") + b"\n"
    return data[:8] + struct.pack("<H", min(len(text), 65535)) + text + body


def change_zip(data: bytes, rng: random.Random) -> bytes:
    """Change a member, its name or its number; the checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    i, how = rng.randrange(len(members)), rng.randrange(8)
    name, content = members[i]
    if how < 4:
        pickled = name.endswith(".pkl") and rng.random() < 0.3
        members[i] = name, rng.choice(PICKLES) if pickled else mutate(content, rng)
    elif how == 4:
        names = ("../../up.npy", "/abs.npy", "a\x1b[2J.npy", "[/evil].npy", "x" * 60_000, "a")
        members[i] = rng.choice(names), content
    elif how == 5:
        members.append((name, content[: rng.randrange(len(content) + 1)]))
    elif how == 6:
        # A bomb: zeros that compress a thousand times.
        members[i] = name, content + bytes(rng.choice((10**6, 10**8)))
    else:
        members += [(f"{rng.choice(('train', 'test', 'x'))}_{n}.npy", b"") for n in range(2000)]
    out = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with (
        warnings.catch_warnings(action="ignore"),
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if how == 6 else kind) as new,
    ):
        for name, content in members:
            new.writestr(name, content)
    data = out.getvalue()
    if rng.random() < 0.2:
        # A lie in the directory at the end.
        at = data.rfind(b"PK\x01\x02") + rng.choice((10, 16, 20, 24, 28, 42))
        data = data[:at] + rng.choice(SIZES).to_bytes(8, "little")[:4] + data[at + 4 :]
    return data


def change_gzip(data: bytes, rng: random.Random) -> bytes:
    """Change what is inside; the checksum is right."""
    content = gzip.decompress(data)
    bomb = bytes(10**8) if rng.random() < 0.1 else b""
    return gzip.compress(mutate(content, rng) + bomb, 1)


STRUCTURES: tuple[tuple[Callable[[bytes], bool], Callable[[bytes, random.Random], bytes]], ...] = (
    (lambda data: data[:4] == b"PK\x03\x04", change_zip),
    (lambda data: data[:2] == b"\x1f\x8b", change_gzip),
    (lambda data: data[:6] == b"\x93NUMPY", change_npy),
    (lambda data: data[8:9] == b"{", change_safetensors),
    (lambda data: data[:1] == b"{", change_lines),
)


def replace_file(path: Path, rng: random.Random) -> None:
    """Put a pickle, a folder, a pipe, a link or a huge file in the place of a file."""
    path.unlink()
    rng.choice(
        (
            lambda: path.write_bytes(PICKLE),
            path.touch,
            path.mkdir,
            lambda: os.mkfifo(path),
            lambda: path.symlink_to(rng.choice((path.name, "nothing", "/dev/zero"))),
            lambda: (path.touch(), os.truncate(path, 1 << 40)),
        )
    )()
