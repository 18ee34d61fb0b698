"""Starting at login: an entry of the desktop on Linux, a value of the user's registry on Windows."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_NAME = "SoulsGUI"
_RUN_KEY = r"Software\Microsoft\Windows\CurrentVersion\Run"


def can_start_at_login(platform: str = sys.platform) -> bool:
    """Whether this program knows how its start at login is arranged here."""
    return platform in ("linux", "win32")


def starts_at_login(platform: str = sys.platform, registry: Any = None) -> bool:
    """Whether it starts when its user logs in."""
    if platform != "win32":
        return _desktop_entry().exists()
    registry = registry or _winreg()
    try:
        with registry.OpenKey(registry.HKEY_CURRENT_USER, _RUN_KEY) as key:
            registry.QueryValueEx(key, _NAME)
    except OSError:
        return False
    return True


def start_at_login(argv: Sequence[str] | None, platform: str = sys.platform, registry: Any = None) -> None:
    """Have this command started when the user logs in; None for nothing any more.

    Raises:
        OSError: The system keeps it from being written down.
    """
    if platform != "win32":
        path = _desktop_entry()
        if argv is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(_quoted(word) for word in argv)
        entry = f"[Desktop Entry]\nType=Application\nName={_NAME}\nExec={words}\nTerminal=false\n"
        path.write_text(entry, encoding="utf-8")
        return
    registry = registry or _winreg()
    with registry.CreateKey(registry.HKEY_CURRENT_USER, _RUN_KEY) as key:
        if argv is not None:
            # The other Python opens a console.
            quiet = Path(argv[0]).with_name("pythonw.exe")
            line = subprocess.list2cmdline((str(quiet) if quiet.is_file() else argv[0], *argv[1:]))
            registry.SetValueEx(key, _NAME, 0, registry.REG_SZ, line)
        else:
            with suppress(FileNotFoundError):
                registry.DeleteValue(key, _NAME)


def _winreg() -> Any:
    import winreg

    return winreg


def _desktop_entry() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "autostart" / "soulsgui.desktop"


def _quoted(word: str) -> str:
    """Return a word as an entry wants it: quoted, and escaped once more as every text of an entry is."""
    if not word.isprintable():
        raise OSError(f"{word!r} can't stand in a desktop entry")
    inner = re.sub(r'(["`$\\])', r"\\\1", word).replace("%", "%%")
    return f'"{inner}"'.replace("\\", "\\\\")
