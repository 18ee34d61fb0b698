"""How this computer is brought up to date: what to type, by how the program was installed."""

import sys
from dataclasses import dataclass
from pathlib import Path

import soulsgui
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_server import server_is_older
from soulsgui.wire.versions import PROTOCOL_NAME, Lack

OWN_NAME = "soulsgui"
_SET_UP = Path("packaging", "bootstrap.py")


@dataclass(frozen=True)
class Installation:
    """How the program came to this computer.

    Attributes:
        python: The Python that runs it.
        checkout: The folder of its source that it runs from; None where it was installed.
        frozen: Whether it is one file that has its own Python in it.
        windows: Whether the shell here is that of Windows.
    """

    python: str
    checkout: Path | None = None
    frozen: bool = False
    windows: bool = False


@dataclass(frozen=True)
class UpdateSteps:
    """What its owner does to update this computer.

    Attributes:
        sentence: What to do.
        commands: What to type, a line each; empty where there is nothing to type.
        afterwards: What happens then.
    """

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


def update_steps(lacks: list[Lack], place: Installation) -> UpdateSteps | None:
    """Return how to bring this computer up to date.

    Args:
        lacks: What a server needs and this computer has not; empty for the program itself.
        place: How the program came here.

    Returns:
        None where it is the server that has to be updated.
    """
    if server_is_older(lacks):
        return None
    of_others = lacks and all(lack.what not in (OWN_NAME, PROTOCOL_NAME) for lack in lacks)
    if of_others and not place.frozen:
        return _packages(lacks, place)
    if place.checkout is not None and not place.frozen:
        return _checkout(place.checkout, place.windows)
    return UpdateSteps(
        tr("Get the newer SoulsGUI from where this one came from, and install it over this one."),
        (),
        tr("Quit SoulsGUI before that. Start it again afterwards and switch on."),
    )


def _packages(lacks: list[Lack], place: Installation) -> UpdateSteps:
    names = " ".join(f'"{lack.what}>={lack.needs}"' for lack in lacks)
    # PowerShell takes a quoted path for a text unless an ampersand stands before it.
    python = f'& "{place.python}"' if place.windows else f'"{place.python}"'
    shell = tr("Type this in PowerShell:") if place.windows else tr("Type this in a terminal:")
    return UpdateSteps(shell, (f"{python} -m pip install --upgrade {names}",), tr("It then joins by itself."))


def _checkout(folder: Path, windows: bool) -> UpdateSteps:
    set_up = f"py packaging\\{_SET_UP.name}" if windows else f"python3 {_SET_UP.as_posix()}"
    return UpdateSteps(
        tr("Quit SoulsGUI, then type this in a terminal:"),
        (f'cd "{folder}"', "git pull", set_up),
        tr("The last line starts SoulsGUI again; then switch on."),
    )
