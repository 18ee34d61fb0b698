import configparser
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from soulsgui.system import can_start_at_login, start_at_login, starts_at_login

ARGV = ["/opt/my 100% $souls/python", "-P", "-m", "soulsgui", "gui", "--data-dir", 'a"b\\c']


def test_on_linux_an_entry_of_the_desktop_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert not starts_at_login("linux")
    start_at_login(ARGV, "linux")
    assert starts_at_login("linux")
    parser = configparser.RawConfigParser()
    parser.read(tmp_path / "autostart" / "soulsgui.desktop", encoding="utf-8")
    # As the specification of desktop entries reads it: the text first, then its words.
    line = parser["Desktop Entry"]["exec"].replace("\\\\", "\\")
    assert [word.replace("%%", "%") for word in shlex.split(line.replace("\\$", "$"))] == ARGV
    for _ in range(2):
        start_at_login(None, "linux")
        assert not starts_at_login("linux")
    with pytest.raises(OSError, match="can't stand"):
        start_at_login(["a\nExec=other"], "linux")
    assert not starts_at_login("linux")


class Registry:
    """What `winreg` is on Windows, as far as it is used."""

    HKEY_CURRENT_USER, REG_SZ = "user", 1

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], dict[str, Any]] = {}

    @contextmanager
    def CreateKey(self, root: str, path: str) -> Iterator[dict[str, Any]]:
        yield self.keys.setdefault((root, path), {})

    @contextmanager
    def OpenKey(self, root: str, path: str) -> Iterator[dict[str, Any]]:
        if (root, path) not in self.keys:
            raise FileNotFoundError
        yield self.keys[root, path]

    def SetValueEx(self, key: dict[str, Any], name: str, _: int, kind: int, value: str) -> None:
        key[name] = (value, kind)

    def QueryValueEx(self, key: dict[str, Any], name: str) -> Any:
        if name not in key:
            raise FileNotFoundError
        return key[name]

    def DeleteValue(self, key: dict[str, Any], name: str) -> None:
        if name not in key:
            raise FileNotFoundError
        del key[name]


def test_on_windows_a_value_of_the_users_registry_starts_it(tmp_path: Path) -> None:
    registry, folder = Registry(), tmp_path / "Program Files"
    folder.mkdir()
    for name in ("python.exe", "pythonw.exe"):
        (folder / name).touch()
    assert not starts_at_login("win32", registry)
    start_at_login([str(folder / "python.exe"), "-m", "soulsgui"], "win32", registry)
    assert starts_at_login("win32", registry)
    (values,) = registry.keys.values()
    assert values == {"SoulsGUI": (f'"{folder / "pythonw.exe"}" -m soulsgui', Registry.REG_SZ)}
    for _ in range(2):
        start_at_login(None, "win32", registry)
        assert not starts_at_login("win32", registry)


def test_it_is_known_where_it_can_be_arranged() -> None:
    assert [can_start_at_login(system) for system in ("linux", "win32", "darwin")] == [True, True, False]
