"""Puts SoulsGUI into this user's Start menu, with its icon, and lets it open invitations.

These are `.soulsgui` files and `soulsgui://` links. `remove` takes it out again:

    py packaging\\launchers\\install-windows.py [remove]
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

LAUNCHER = Path(__file__).resolve().with_name("SoulsGUI.pyw")
# resources/make_icons.py makes it of the pictures beside it.
ICON = LAUNCHER.parents[2] / "resources" / "icons" / "app" / "app.ico"
SCHEME, ENDING, FILE = "soulsgui", ".soulsgui", "SoulsGUI.Invitation"
_CLASSES = r"Software\Classes"
_ASSOCIATIONS_CHANGED = 0x0800_0000
_SHORTCUT_LIMIT_S = 60
# Paths come through the environment: none can be taken for a command of PowerShell.
_MAKE_SHORTCUT = (
    "$ErrorActionPreference = 'Stop'; "
    "$made = (New-Object -ComObject WScript.Shell).CreateShortcut($env:SOULSGUI_ENTRY); "
    "$made.TargetPath = $env:SOULSGUI_PYTHON; "
    "$made.Arguments = $env:SOULSGUI_ARGUMENTS; "
    "$made.IconLocation = $env:SOULSGUI_ICON; "
    "$made.Save()"
)


def main(argv: Sequence[str], registry: Any = None, shell: Any = None, run: Any = subprocess.run) -> None:
    """Put the program into the menu, or take it out.

    Args:
        argv: What was typed: nothing, or `remove`.
        registry: Stands for `winreg`, which only Windows has.
        shell: Stands for `shell32`, likewise.
        run: Starts PowerShell.
    """
    if registry is None:
        import winreg as registry
    shell = shell or vars(ctypes)["windll"].shell32
    entry = Path(os.environ["APPDATA"], "Microsoft", "Windows", "Start Menu", "Programs", "SoulsGUI.lnk")
    print(_take_out(entry, registry) if list(argv) == ["remove"] else _put_in(entry, registry, run))
    shell.SHChangeNotify(_ASSOCIATIONS_CHANGED, 0, None, None)


def _put_in(entry: Path, registry: Any, run: Any) -> str:
    python = _python()
    for name, values in _classes(python).items():
        with registry.CreateKey(registry.HKEY_CURRENT_USER, rf"{_CLASSES}\{name}") as key:
            for value, words in values.items():
                registry.SetValueEx(key, value, 0, registry.REG_SZ, words)
    if wrong := _make_shortcut(entry, python, run):
        return f"SoulsGUI opens invitations, but could not be put into the menu: {wrong}"
    return f"SoulsGUI is in the menu ({entry})."


def _take_out(entry: Path, registry: Any) -> str:
    entry.unlink(missing_ok=True)
    for name in (SCHEME, ENDING, FILE):
        with suppress(FileNotFoundError):
            _remove_key(registry, rf"{_CLASSES}\{name}")
    return "SoulsGUI is out of the menu; its folder is untouched."


def _python() -> Path:
    """The Python without a console; not the one of `.venv`, which the set-up may make anew."""
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    quiet = base.with_name("pythonw.exe")
    return quiet if quiet.is_file() else base


def _classes(python: Path) -> dict[str, dict[str, str]]:
    """The keys of the registry with their values; the value "" is what a key itself says."""
    # `%1` is what was opened: between quotes, so that it is one word. `%%` is a percent sign.
    opening = f'"{python}" "{LAUNCHER}"'.replace("%", "%%") + ' "%1"'
    found = {
        SCHEME: {"": "URL:Invitation of SoulsGUI", "URL Protocol": ""},
        FILE: {"": "Invitation of SoulsGUI"},
        ENDING: {"": FILE},
    }
    for name in (SCHEME, FILE):
        found[rf"{name}\DefaultIcon"] = {"": f"{ICON},0"}
        found[rf"{name}\shell\open\command"] = {"": opening}
    return found


def _remove_key(registry: Any, path: str) -> None:
    """Remove a key with those below it, which Windows doesn't do by itself."""
    with registry.OpenKey(registry.HKEY_CURRENT_USER, path) as key:
        count, _, _ = registry.QueryInfoKey(key)
        below = [registry.EnumKey(key, place) for place in range(count)]
    for name in below:
        _remove_key(registry, rf"{path}\{name}")
    registry.DeleteKey(registry.HKEY_CURRENT_USER, path)


def _make_shortcut(entry: Path, python: Path, run: Any) -> str:
    """Make the entry of the Start menu; return in words what prevented it, if anything."""
    powershell = Path(os.environ["SYSTEMROOT"], "System32", "WindowsPowerShell", "v1.0", "powershell.exe")
    words = {
        "SOULSGUI_ENTRY": str(entry),
        "SOULSGUI_PYTHON": str(python),
        "SOULSGUI_ARGUMENTS": f'"{LAUNCHER}"',
        "SOULSGUI_ICON": f"{ICON},0",
    }
    try:
        done = run(
            [str(powershell), "-NoProfile", "-NonInteractive", "-Command", _MAKE_SHORTCUT],
            env={**os.environ, **words},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SHORTCUT_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "PowerShell does not answer."
    if done.returncode == 0:
        return ""
    return done.stderr.strip().partition("\n")[0] or "PowerShell refused it."


if __name__ == "__main__":
    main(sys.argv[1:])
