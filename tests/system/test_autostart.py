import configparser
import shlex
from pathlib import Path

import pytest

from soulsgui.system import can_start_at_login, start_at_login, starts_at_login
from tests.registry import Registry

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


def test_on_windows_a_value_of_the_users_registry_starts_it(tmp_path: Path) -> None:
    registry, folder = Registry(), tmp_path / "Program Files"
    folder.mkdir()
    for name in ("python.exe", "pythonw.exe"):
        (folder / name).touch()
    assert not starts_at_login("win32", registry)
    start_at_login([str(folder / "python.exe"), "-m", "soulsgui"], "win32", registry)
    assert starts_at_login("win32", registry)
    (key,) = (values for values in registry.keys.values() if values)
    assert key == {"SoulsGUI": (f'"{folder / "pythonw.exe"}" -m soulsgui', Registry.REG_SZ)}
    for _ in range(2):
        start_at_login(None, "win32", registry)
        assert not starts_at_login("win32", registry)


def test_it_is_known_where_it_can_be_arranged() -> None:
    assert [can_start_at_login(system) for system in ("linux", "win32", "darwin")] == [True, True, False]
