"""The gallery: each script is short, runs alone and draws."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_draws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script draws one figure with data in all panels, and needs no file of the repository."""
    plt = pytest.importorskip("matplotlib.pyplot")
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    try:
        runpy.run_path(str(path), run_name="__main__")
        (figure,) = shown
        assert figure.axes
        assert all(ax.lines or ax.collections for ax in figure.axes)
        assert all(ax.get_xlabel() for ax in figure.axes if ax.name != "3d")
    finally:
        plt.close("all")


def test_gallery_has_twelve_short_scripts() -> None:
    assert len(EXAMPLES) >= 12
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 40, path.name
