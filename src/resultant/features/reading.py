"""Errors of the libraries that read files, as one line with the path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from resultant._core.files import require_input_file
from resultant._core.text import one_line


class FileError(ValueError):
    """A file is missing, broken or of another kind; the message has the path."""


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn all errors over a file or URL, and libraries raise almost any, into a `FileError`."""
    rule = f"expected {os.fspath(path)} to be {kind}"
    try:
        if "://" not in os.fspath(path):
            require_input_file(path)
        yield
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{rule}, got no such file") from None
    except Exception as error:
        text = one_line(error) or type(error).__name__
        raise FileError(f"{rule}, got: {text}") from None
