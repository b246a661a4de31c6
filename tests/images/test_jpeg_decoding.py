"""JPEG files decoded by the GPU; without one, by a stand-in of nvJPEG on the CPU."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from resultant._core import chunks
from resultant.images import store as stores
from resultant.images.decode import ImageError
from resultant.images.files import FileImages, file_facts
from resultant.images.jpeg_decoding import gpu_decoder, is_whole_jpeg
from resultant.images.store import ImageStore, open_store

CPU = torch.device("cpu")


def jpeg(seed: int, size: tuple[int, int], mode: str = "RGB", form: str = "JPEG") -> bytes:
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    file = io.BytesIO()
    image = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).convert(mode)
    image.save(file, form)
    return file.getvalue()


def write(folder: Path, files: dict[str, bytes]) -> FileImages:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    paths = [str(folder / name) for name in files]
    return FileImages(paths, np.zeros(len(paths), np.int64), ("a",), file_facts(paths))


def pillow(files: list[Tensor]) -> list[Tensor]:
    """Decode as nvJPEG: no files but JPEG of one or three channels."""
    images = []
    for data in files:
        image = Image.open(io.BytesIO(data.numpy().tobytes()))
        if image.format != "JPEG" or image.mode == "CMYK":
            raise RuntimeError("nvjpegDecode: not supported")
        images.append(torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1))
    return images


@pytest.fixture
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "gpu_decoder", lambda device: pillow)
    monkeypatch.setattr(stores, "LEAST_PIXELS", 100)


def difference(a: ImageStore, b: ImageStore) -> Tensor:
    return (a.pixels.int() - b.pixels.int()).abs()


@pytest.mark.usefixtures("_stand_in")
@pytest.mark.parametrize("budget", [2000, 1 << 24])
def test_all_kinds_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """Sizes, formats and channels of all kinds are within a level of Pillow alone."""
    monkeypatch.setattr(chunks, "JPEG_BYTES", budget)
    files = {f"{i}.jpg": jpeg(i, (30 + i, 100 - i)) for i in range(70)}
    files |= {"grey.jpg": jpeg(70, (50, 40), "L"), "png.jpg": jpeg(71, (50, 40), form="PNG")}
    files |= {"cmyk.jpg": jpeg(72, (50, 40), "CMYK"), "small.jpg": jpeg(73, (12, 90))}
    files["long.jpg"] = jpeg(74, (40, 40)) + b"\0" * 20
    images = write(tmp_path / "files", files)
    ours = open_store(images, tmp_path / "a", 20, device=CPU, workers=0)
    ours.fill()
    theirs = open_store(images, tmp_path / "b", 20, workers=0)
    theirs.fill()
    assert difference(ours, theirs).max() <= 1
    assert open_store(images, tmp_path / "a", 20, device=CPU, workers=0).complete


@pytest.mark.usefixtures("_stand_in")
@pytest.mark.parametrize("broken", ["cut", "text"])
def test_broken_file_is_named(tmp_path: Path, broken: str) -> None:
    files = {f"{i}.jpg": jpeg(i, (40, 50)) for i in range(70)}
    images = write(tmp_path / "files", files)
    store = open_store(images, tmp_path / "s", 20, device=CPU, workers=0)
    path = Path(images.paths[66])
    path.write_bytes(files["66.jpg"][:-300] if broken == "cut" else b"text")
    with pytest.raises(ImageError, match=rf"^expected {path} to be a whole image, got"):
        store.wait(torch.arange(70))
    again = open_store(images, tmp_path / "s", 20, device=CPU, workers=0)
    assert again.done[:66].all() and not again.done[66]
    path.write_bytes(files["66.jpg"])
    again.fill()
    assert again.complete


def test_small_images_other_formats_and_many_cores_leave_the_gpu_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "gpu_decoder", lambda device: pytest.fail("asked for the GPU"))
    small = write(tmp_path / "small", {"a.jpg": jpeg(0, (64, 64))})
    large = write(tmp_path / "large", {"a.png": jpeg(0, (300, 300), form="PNG")})
    many = write(tmp_path / "many", {"a.jpg": jpeg(0, (300, 300))})
    for images, workers in ((small, 0), (large, 0), (many, 8)):
        open_store(images, tmp_path / "s", 256, device=CPU, workers=workers).fill()


def test_whole_files() -> None:
    data = jpeg(0, (30, 30))
    assert is_whole_jpeg(data) and is_whole_jpeg(data + b"\0" * 30)
    assert not is_whole_jpeg(data[:-70]) and not is_whole_jpeg(b"") and not is_whole_jpeg(b"text")
    assert gpu_decoder(CPU) is None


@pytest.mark.gpu
def test_gpu(tmp_path: Path) -> None:
    """nvJPEG is within some levels of Pillow, on average within one."""
    device = torch.device("cuda")
    if gpu_decoder(device) is None:
        pytest.skip("torchvision has no nvJPEG here")
    files = {f"{i}.jpg": jpeg(i, (300 + i, 400 - i)) for i in range(100)}
    files |= {"grey.jpg": jpeg(100, (300, 300), "L"), "cmyk.jpg": jpeg(101, (300, 300), "CMYK")}
    images = write(tmp_path / "files", files)
    ours = open_store(images, tmp_path / "a", 256, device=device, workers=0)
    theirs = open_store(images, tmp_path / "b", 256, workers=0)
    ours.fill()
    theirs.fill()
    apart = difference(ours, theirs)
    assert apart.double().mean() < 1 and apart.max() <= 32
