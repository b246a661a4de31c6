"""Charts as plain numbers for the JavaScript of Bokeh, which draws them when a page is opened.

Bokeh was taken because its JavaScript is in the Python package (1.4 MB of the 5 MB of a page; that
of Plotly is 4.8 MB, that of Altair is not in its package), works under a content security policy
without eval, and shares one source between figures, so that a class can be followed through all of
them. Its figures are canvases, which a screen reader cannot read: the page adds captions and the
numbers as tables. Bokeh's models are made in the browser; making them in Python takes seconds.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resultant.classes.groups import GROUPS
from resultant.report.charts import GROUP_COLOURS, GROUP_SHAPES, Bars, Chart, Level, Mark, Points

# The most points of one mark on a page.
POINTS = 2000

# Characters of the name of a class, and of all names, on a page.
NAME, NAMES = 80, 1_500_000

# Scripts of Bokeh: the core, and the functions to make figures.
BOKEH = ("bokeh.min.js", "bokeh-api.min.js")


@dataclass(frozen=True, eq=False)
class ClassColumns:
    """Numbers of the classes, which a figure shows when the mouse is on a class.

    Attributes:
        names: Names [C].
        columns: Lists [C] by heading.
    """

    names: Sequence[str]
    columns: Mapping[str, Sequence[Any]]

    def kept(self, most: int) -> Tensor:
        """Return True for the classes [C] whose numbers a page holds: at most ``most``, evenly
        chosen in the order of their training rows."""
        number = len(self.names)
        if most >= number:
            return torch.ones(number, dtype=torch.bool)
        order = torch.tensor(self.columns.get("training rows", range(number))).argsort(stable=True)
        chosen = torch.zeros(number, dtype=torch.bool)
        chosen[order[torch.linspace(0, number - 1, most).round().long()]] = True
        return chosen


class Plots:
    """The interactive figures of a page, by section.

    Args:
        most: The most classes whose numbers the page holds.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self.most = most
        self._sections: dict[str, list[dict[str, Any]]] = {}
        self._classes: dict[str, dict[str, Any]] = {}
        self._names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def add(self, section: str, group: str, chart: Chart, classes: ClassColumns | None) -> None:
        """Add a chart to a section.

        Args:
            section: Name of the section.
            group: Name that sections with the same classes share.
            chart: The chart.
            classes: Numbers of the classes.
        """
        kept = None if classes is None else classes.kept(self.most)
        if classes is not None and group not in self._classes:
            columns = {name: _numbers(values, kept) for name, values in classes.columns.items()}
            length = min(NAME, NAMES // max(1, len(classes.names)))
            names = [name if len(name) <= length else f"{name[:length]}…" for name in classes.names]
            self._classes[group] = {"name": names, **columns}
        name = f"{group}-{chart.name}"
        self._names.add(name)
        self._sections.setdefault(section, []).append(
            {
                "name": name,
                "title": chart.title,
                "x": {**asdict(chart.x), "ticks": chart.ticks("x")},
                "y": {**asdict(chart.y), "ticks": chart.ticks("y")},
                "diagonal": chart.diagonal,
                "marks": [_mark(mark, kept) for mark in chart.marks],
            }
        )

    def document(self) -> dict[str, Any]:
        """Return the figures by section, and the numbers of the classes by group."""
        return {"sections": self._sections, "classes": self._classes}


def javascript() -> str:
    """Return the JavaScript of Bokeh without its widgets and tables."""
    # Found, not imported: the import takes a second.
    spec = importlib.util.find_spec("bokeh")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "server" / "static" / "js"
    text = "\n".join((folder / name).read_text(encoding="utf-8") for name in BOKEH)
    # A script ends at the first closing tag, wherever that is.
    return text.replace("</script", "<\\/script").replace("//# sourceMappingURL", "//")


def _mark(mark: Mark, kept: Tensor | None) -> dict[str, Any]:
    if isinstance(mark, Level):
        return {"type": "level", **asdict(mark)}
    if isinstance(mark, Points):
        return _points(mark, kept if mark.kind == "class" else None)
    kind = "bars" if isinstance(mark, Bars) else "line"
    values = {name: getattr(mark, name) for name in mark.__dataclass_fields__}
    y = values.pop("height", None) if kind == "bars" else values["y"]
    return {"type": kind, **values, "x": _numbers(mark.x), "y": _numbers(y)}


def _points(mark: Points, kept: Tensor | None) -> dict[str, Any]:
    if kept is not None and mark.members is not None:
        kept = kept[mark.members]
    # Classes keep their places: they are followed by their number.
    step = 1 if mark.kind == "class" else max(1, math.ceil(len(mark.x) / POINTS))
    answer: dict[str, Any] = {
        "type": "points",
        "x": _numbers(mark.x[::step], kept),
        "y": _numbers(mark.y[::step], kept),
        "label": mark.label,
        "colour": mark.colour,
        "shape": "circle",
        "kind": mark.kind,
        "hollow": mark.hollow,
        "size": mark.size,
        "name": mark.name,
    }
    if mark.group is not None:
        groups = [GROUPS[g] for g in mark.group.tolist()]
        answer["colour"] = [GROUP_COLOURS[g] for g in groups]
        answer["shape"] = [GROUP_SHAPES[g] for g in groups]
    if mark.members is not None:
        answer["members"] = mark.members[::step].tolist()
    return answer


def _numbers(values: Sequence[Any] | Tensor, kept: Tensor | None = None) -> list[Any]:
    """Return values as JSON: None for a number that is not finite or not kept, seven digits of
    others."""
    plain = values.double().tolist() if isinstance(values, Tensor) else list(values)
    if kept is not None:
        plain = [v if k else None for v, k in zip(plain, kept.tolist(), strict=True)]
    return [
        (float(f"{v:.7g}") if math.isfinite(v) else None) if isinstance(v, float) else v
        for v in plain
    ]
