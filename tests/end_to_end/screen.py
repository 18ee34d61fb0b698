"""A screen nobody sees (Xvfb), with a mouse and a keyboard (xdotool) and a look at its pixels."""

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.faults.waiting import LIMIT_S, until

WIDTH, HEIGHT = 1280, 800
_BUTTON_PX = 50
_STILL_S = 0.25
MISSING = [tool for tool in ("Xvfb", "xdotool") if shutil.which(tool) is None]

Pixels = NDArray[np.uint8]


class Screen:
    """An X server of its own, whose picture lies in a folder."""

    def __init__(self, folder: Path) -> None:
        self._picture = folder / "Xvfb_screen0"
        reading, writing = os.pipe()
        # Without -noreset it begins anew whenever the last program has left, and refuses who comes then.
        fixed = f"Xvfb -noreset -screen 0 {WIDTH}x{HEIGHT}x24"
        command = [*fixed.split(), "-displayfd", str(writing), "-fbdir", str(folder)]
        with (folder / "Xvfb.log").open("wb") as log:
            self._server = subprocess.Popen(command, pass_fds=[writing], stdout=log, stderr=log)
        os.close(writing)
        with os.fdopen(reading) as told:
            number = told.readline().strip()
        assert number, "Xvfb did not start"
        self.env = os.environ | {"QT_QPA_PLATFORM": "xcb", "XDG_SESSION_TYPE": "x11", "DISPLAY": f":{number}"}
        self.env.pop("WAYLAND_DISPLAY", None)

    def close(self) -> None:
        self._server.terminate()
        self._server.wait(LIMIT_S)

    def pixels(self) -> Pixels:
        """Return what is on the screen, `[height, width, 3]`, red, green, blue."""
        data = self._picture.read_bytes()
        header = struct.unpack(">25I", data[:100])
        size, width, height, stride, colours = header[0], header[4], header[5], header[12], header[19]
        start = size + 12 * colours
        rows = np.frombuffer(data[start : start + stride * height], np.uint8).reshape(height, stride)
        return rows.reshape(height, stride // 4, 4)[:, :width, 2::-1]

    def button(self, colour: str, window: str = "") -> tuple[int, int] | None:
        """Return the middle of the area filled with a colour, `#rrggbb`: x, y; None while there is none.

        It is looked for in the window of this title; empty for the whole screen.
        """
        wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)
        mask: NDArray[np.bool_] = (self.pixels() == wanted).all(axis=2)
        if window:
            outside = np.ones_like(mask)
            outside[self._place(window)] = False
            mask &= ~outside
        filled = mask.astype(np.int32).cumsum(axis=1)
        # Icons and letters in the same colour have no lines as long as this; the edge of a field that has the
        # keyboard has them, but not one below the other.
        lines = filled[:, _BUTTON_PX:] - filled[:, :-_BUTTON_PX] == _BUTTON_PX
        y, x = np.nonzero(lines[1:] & lines[:-1])
        if not x.size:
            return None
        return int((x.min() + x.max() + _BUTTON_PX) // 2), int((y.min() + y.max()) // 2)

    def settled_button(self, colour: str, limit_s: float, window: str = "") -> tuple[int, int]:
        """Wait until the filled area stands still, and return its middle; arguments as those of `button`."""
        seen: list[tuple[int, int] | None] = [None]

        def still() -> bool:
            time.sleep(_STILL_S)
            seen.append(self.button(colour, window))
            return seen[-1] is not None and seen[-1] == seen[-2]

        seconds_until(still, f"a button in {colour}", limit_s)
        found = seen[-1]
        assert found is not None
        return found

    def focus(self, title: str) -> None:
        """Give the keyboard to a window, as a window manager does when a dialog has closed."""
        self._ask("windowfocus", "--sync", self.windows(title)[0])

    def click(self, x: int, y: int) -> None:
        self._ask("mousemove", str(x), str(y), "click", "1")

    def press(self, *keys: str) -> None:
        """Press keys one after the other, such as `ctrl+shift+s`."""
        self._ask("key", "--delay", "30", *keys)

    def write(self, text: str) -> None:
        self._ask("type", "--delay", "15", text)

    def windows(self, title: str) -> list[str]:
        """Return the visible windows whose title contains a text."""
        return self._ask("search", "--onlyvisible", "--name", title, check=False).split()

    def _place(self, title: str) -> tuple[slice, slice]:
        """Return the rows and columns of the screen that a window takes."""
        told = self._ask("getwindowgeometry", "--shell", self.windows(title)[0])
        place = {name: int(value) for name, value in (line.split("=") for line in told.split())}
        x, y = place["X"], place["Y"]
        return slice(y, y + place["HEIGHT"]), slice(x, x + place["WIDTH"])

    def _ask(self, *words: str, check: bool = True) -> str:
        return subprocess.run(
            ["xdotool", *words], env=self.env, check=check, timeout=LIMIT_S, capture_output=True, text=True
        ).stdout


def seconds_until(look: Callable[[], object], what: str, limit_s: float) -> float:
    start = time.monotonic()
    until(look, what, limit_s, every_s=0.03)
    return time.monotonic() - start
