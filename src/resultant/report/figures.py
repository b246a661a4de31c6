"""A figure of a report, whatever draws it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing(ABC):
    """A figure of a report.

    Attributes:
        name: Name for files.
        title: Heading.
        sentence: Caption: the meaning and the numbers.
        label: The paper's label of the corresponding table, figure or section.
    """

    name: str
    title: str
    sentence: str
    label: str

    @abstractmethod
    def figure(self) -> Figure:
        """Return the figure of matplotlib, laid out once for all its files."""
