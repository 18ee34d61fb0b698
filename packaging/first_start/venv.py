"""The environment `.venv`: made, filled by pip, and found again."""

import importlib
import importlib.util
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from first_start import screen
from first_start.failure import SAME_COMMAND, SetupError
from first_start.plan import Pin, normalised
from first_start.progress import Console, Progress
from first_start.steps import Steps, clean_environment, pip_environment

_KEPT = ("bootstrap.json", "bootstrap.lock", "bootstrap.log", "invitation.soulsgui")
_IMPORTS = "import soulsgui, aiohttp, gymnasium, numpy, psutil, pydantic, redis, PySide6.QtCore"


class Venv:
    """The paths inside `.venv` and what they tell.

    Args:
        root: The folder of `pyproject.toml`.
        platform: A value of `sys.platform`.
    """

    def __init__(self, root: Path, platform: str = sys.platform) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.stamp = self.folder / "bootstrap.json"
        self.lock = self.folder / "bootstrap.lock"
        self.log = self.folder / "bootstrap.log"
        windows = platform == "win32"
        self.python = self.folder / ("Scripts/python.exe" if windows else "bin/python")
        self._libraries = "Lib/site-packages" if windows else "lib/python3.*/site-packages"

    def python_version(self) -> str:
        """Of the Python it was made with, "" when there is none."""
        found = re.search(r"^version(?:_info)? = (\d+\.\d+\.\d+)", self._settings(), re.MULTILINE)
        return found[1] if found else ""

    def belongs_here(self) -> bool:
        """Whether it was made in this place and its Python is still there; its scripts hold the path."""
        made = re.search(r"^command = .* -m venv .*$", self._settings(), re.MULTILINE)
        moved = made is not None and not made[0].endswith(f" {self.folder}")
        return bool(self.python_version()) and self.python.exists() and not moved

    def _settings(self) -> str:
        try:
            return (self.folder / "pyvenv.cfg").read_text(encoding="utf-8")
        except OSError:
            return ""

    def installed(self) -> dict[str, str]:
        """Version by normalised name of everything that pip installed here to the end."""
        if not self.belongs_here():
            return {}
        whole = [info for info in self._infos() if (info / "RECORD").exists()]
        pairs = (info.name.removesuffix(".dist-info").rpartition("-") for info in whole)
        return {normalised(name): version for name, _, version in pairs}

    def remove_half_installed(self) -> list[str]:
        """Make pip install anew what an interruption left in pieces (it writes RECORD last, yet never looks).

        Returns:
            The names of what was removed.
        """
        halves = [info for info in self._infos() if not (info / "RECORD").exists()]
        halves += [left for place in self.folder.glob(self._libraries) for left in place.glob("~*")]
        for half in halves:
            _remove(half)
        return [half.name for half in halves]

    def clear(self) -> None:
        """Remove everything but what belongs to the running set-up."""
        for entry in self.folder.iterdir():
            if entry.name not in _KEPT:
                _remove(entry)

    def _infos(self) -> list[Path]:
        return [info for place in self.folder.glob(self._libraries) for info in place.glob("*.dist-info")]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def make(venv: Venv, steps: Steps, console: Console, env: Mapping[str, str]) -> None:
    """Make sure that `.venv` holds a Python with a pip that works; what is broken is made anew.

    Raises:
        SetupError: It can't be made.
    """
    test = [str(venv.python), "-I", "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
    if venv.belongs_here() and steps.works(test, clean_environment(env)):
        for name in venv.remove_half_installed():
            console.say(f"  {name} was left incomplete by an interruption; it is installed again.")
        return
    _require_ensurepip(env, console)
    console.show("making .venv", notable=True)
    venv.clear()
    # Of a Python that itself belongs to an environment, the one behind it.
    base = getattr(sys, "_base_executable", None) or sys.executable
    steps.run([base, "-I", "-m", "venv", str(venv.folder)], clean_environment(env))


def _require_ensurepip(env: Mapping[str, str], console: Console) -> None:
    # Debian and Ubuntu ship Python without what makes environments.
    if _has_ensurepip():
        return
    if screen.may_install(["python3-venv"], "Making .venv", env, console.say):
        screen.install_packages(["python3-venv"], env)
        importlib.invalidate_caches()
    if not _has_ensurepip():
        raise SetupError(
            "This Python can't create virtual environments: its module ensurepip is missing.",
            f"Type:  sudo apt install python3-venv  (elsewhere: Python from python.org). {SAME_COMMAND}",
        )


def _has_ensurepip() -> bool:
    spec = importlib.util.find_spec("ensurepip")
    return spec is not None and spec.origin is not None  # an emptied folder has no origin


def install(
    venv: Venv, steps: Steps, commands: Sequence[Sequence[str]], pins: Sequence[Pin], env: Mapping[str, str]
) -> None:
    """Run pip, then prove that what it installed can be imported.

    Raises:
        SetupError: A step failed; says why.
    """
    for command in commands:
        progress = Progress(pins, installed=venv.installed)
        steps.run([str(venv.python), "-I", "-m", "pip", *command], pip_environment(env), progress)
    proof = Progress(pins, "testing what was installed")
    torch = ", torch" if any(pin.name == "torch" for pin in pins) else ""
    steps.run([str(venv.python), "-I", "-c", _IMPORTS + torch], clean_environment(env), proof)


def write_stamp(venv: Venv, text: str) -> None:
    """Note what is set up."""
    aside = venv.stamp.with_suffix(".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(venv.stamp)
