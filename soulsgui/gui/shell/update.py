"""How this computer is brought up to date: what to type, by how the program was installed, to be copied."""

import sys
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QWidget

import soulsgui
from soulsgui.gui.icons import dress
from soulsgui.gui.theme import fixed_font
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.labels import Heading, wrapped
from soulsgui.wire.versions import PROTOCOL_NAME, MissingRequirement, server_is_older

_CHARACTERS = 74
OWN_NAME = "soulsgui"
_SET_UP = Path("packaging", "bootstrap.py")


@dataclass(frozen=True)
class Installation:
    """How the program came here: as a checkout of its source, installed, or frozen with its own Python."""

    python: str
    checkout: Path | None = None
    frozen: bool = False
    windows: bool = False


@dataclass(frozen=True)
class UpdateSteps:
    """What its owner does to update this computer: what to type, if anything, and what happens afterwards."""

    sentence: str
    commands: tuple[str, ...]
    afterwards: str


def installation() -> Installation:
    """Return how the program that runs now came to this computer."""
    root = Path(soulsgui.__file__).resolve().parents[1]
    return Installation(
        python=sys.executable,
        checkout=root if (root / _SET_UP).exists() else None,
        frozen=bool(getattr(sys, "frozen", False)),
        windows=sys.platform == "win32",
    )


def update_steps(lacks: list[MissingRequirement], place: Installation) -> UpdateSteps | None:
    """Return how to bring this computer up to date; None where it is the server that has to be updated.

    Without `lacks` it is the program itself that is too old.
    """
    if server_is_older(lacks):
        return None
    of_others = lacks and all(lack.what not in (OWN_NAME, PROTOCOL_NAME) for lack in lacks)
    if of_others and not place.frozen:
        names = " ".join(f'"{lack.what}>={lack.needs}"' for lack in lacks)
        # PowerShell takes a quoted path for a text unless an ampersand stands before it.
        python = f'& "{place.python}"' if place.windows else f'"{place.python}"'
        shell = "Type this in PowerShell:" if place.windows else "Type this in a terminal:"
        command = f"{python} -m pip install --upgrade {names}"
        return UpdateSteps(shell, (command,), "It then joins by itself.")
    if place.checkout is not None and not place.frozen:
        set_up = f"py packaging\\{_SET_UP.name}" if place.windows else f"python3 {_SET_UP.as_posix()}"
        return UpdateSteps(
            "Quit SoulsGUI, then type this in a terminal:",
            (f'cd "{place.checkout}"', "git pull", set_up),
            "The last line starts SoulsGUI again; then switch on.",
        )
    return UpdateSteps(
        "Get the newer SoulsGUI from where this one came from, and install it over this one.",
        (),
        "Quit SoulsGUI before that. Start it again afterwards and switch on.",
    )


class UpdateDialog(FittingDialog):
    """Says what to do, with the commands to copy."""

    def __init__(self, why: str, steps: UpdateSteps, parent: QWidget | None = None) -> None:
        super().__init__("updateDialog", "Update this computer", parent)
        self._lines = "\n".join(steps.commands)
        self.commands = self._make_field(len(steps.commands))
        self.copy = QPushButton("&Copy", self)
        dress(self.copy, "copy")
        self.copy.clicked.connect(self._copy)
        self.copy.setVisible(bool(self._lines))
        before = [wrapped(words, self) for words in (why, steps.sentence) if words]
        parts = Heading(self.windowTitle(), 1, self), *before, self.commands, wrapped(steps.afterwards, self)
        self.arrange(*parts, foot=self.foot(main=[self.copy], leave="Cl&ose"), characters=_CHARACTERS)

    def _make_field(self, lines: int) -> QPlainTextEdit:
        field = QPlainTextEdit(self._lines, self)
        field.setReadOnly(True)
        field.setTabChangesFocus(True)
        field.setProperty("role", "field")
        field.setAccessibleName("What to type")
        field.setFont(fixed_font())
        field.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        # A long path takes a second line.
        field.setFixedHeight(field.fontMetrics().lineSpacing() * (lines + 1) + 20)
        field.setVisible(lines > 0)
        return field

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._lines)
        self.copy.setText("Copied")
