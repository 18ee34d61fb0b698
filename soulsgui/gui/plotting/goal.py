"""The level line at the value that is to be reached."""

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont

from soulsgui.gui.colours import Colours, Tone
from soulsgui.gui.plotting.drawing import pen

# The words stand at the right end: below the line in the upper half of the picture, else above it.
_ANCHORS = [(1, 0), (1, 1)]
_FLATTEST = 0.04
_ABOVE = 10


class GoalLine(pg.InfiniteLine):  # type: ignore[misc]
    """A line with its words, hidden while there is no goal."""

    def __init__(self) -> None:
        super().__init__(angle=0, label="", labelOpts={"position": 1, "anchors": _ANCHORS})
        self.goal: float | None = None
        # Its words lie over the curves.
        self.setZValue(_ABOVE)
        self.hide()

    def show_goal(self, value: float | None, words: str) -> None:
        """Stand at a value; None hides the line."""
        self.goal = value
        self.setVisible(value is not None)
        if value is not None:
            self.setPos(value)
            self.label.setFormat(words.replace("{", "{{").replace("}", "}}"))

    def take_look(self, colours: Colours, font: QFont) -> None:
        """Take on the colours and the font of the theme."""
        colour = colours.tones[Tone.GOOD]
        self.setPen(pen(colour, 1, Qt.PenStyle.DashDotLine))
        self.label.setColor(colour)
        self.label.fill = pg.mkBrush(colours.base)
        self.label.setFont(font)


def with_goal(low: float, high: float, goal: float | None) -> tuple[float, float]:
    """Return the range of y that shows a goal too, unless that would make the curve too flat to be read.

    A curve of a single value is flat anyway.

    Args:
        low: Least value in view.
        high: Greatest value in view.
        goal: The value to be reached; None for none.
    """
    if goal is None:
        return low, high
    least, most = min(low, goal), max(high, goal)
    is_readable = high - low >= _FLATTEST * (most - least)
    return (least, most) if is_readable or low == high else (low, high)
