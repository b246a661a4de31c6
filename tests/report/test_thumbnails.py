"""Pictures of rows: those of the user's folder and no others."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import resultant
from resultant.report.thumbnails import SIDE, thumbnail

Image = pytest.importorskip("PIL.Image")


@pytest.mark.slow
@pytest.mark.usefixtures("one_precision")
def test_rows_to_look_at_have_their_pictures(tmp_path: Path) -> None:
    """From a table that names images to the page: the first row's picture is of its colour."""
    rng, y = np.random.default_rng(0), np.arange(120) % 3
    X = np.eye(6)[y] + 0.3 * rng.normal(size=(120, 6))
    shown = np.where(np.arange(120) == 7, (y + 1) % 3, y)
    (tmp_path / "pictures").mkdir()
    for i in range(120):
        colour = (255, 0, 0) if i == 7 else (0, 0, 255)
        Image.new("RGB", (200, 100), colour).save(tmp_path / "pictures" / f"{i}.png")
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(6)])
    table = table.assign(label=np.array(list("abc"))[shown])
    table["image"] = [f"pictures/{i}.png" for i in range(120)]
    table.to_parquet(tmp_path / "z.parquet")
    resultant.analyze(tmp_path / "z.parquet", out=tmp_path / "out", references="none")
    page = (tmp_path / "out" / "index.html").read_text()
    _, rows = page.split('aria-label="Likely label errors"', 1)
    source, name = re.findall(r'src="data:image/jpeg;base64,([^"]+)"[^>]*> ([^<]+)<', rows)[0]
    assert name == "pictures/7.png"
    picture = Image.open(io.BytesIO(base64.b64decode(source)))
    assert picture.size == (SIDE, SIDE // 2)
    assert picture.getpixel((9, 9))[0] > 200 > 50 > picture.getpixel((9, 9))[2]
    written = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert written.image[0] == "pictures/7.png"


def test_other_names_stay_text(tmp_path: Path) -> None:
    """Pictures outside of the folder, broken ones, and names that are markup."""
    folder = tmp_path / "data"
    folder.mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "secret.png")
    (folder / "broken.png").write_bytes(b"no image")
    Image.new("RGB", (9, 9)).save(folder / "<b>.png")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "broken.png", "no.png", "x.txt"):
        found = thumbnail(name, [folder])
        assert found == name and type(found) is str
    assert str(thumbnail("<b>.png", [folder])).endswith("> &lt;b&gt;.png")
