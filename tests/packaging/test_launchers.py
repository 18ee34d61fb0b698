import configparser
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHERS = Path(__file__).parents[2] / "packaging" / "launchers"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="runs a POSIX shell")


def _entry(path: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser["Desktop Entry"]


def _tree(folder: Path) -> Path:
    """A copy of the launchers in a folder with a space and a percent sign, with a tiny bootstrap."""
    packaging = folder / "my 100% souls" / "packaging"
    shutil.copytree(LAUNCHERS, packaging / "launchers")
    icons = "resources/icons/app"
    shutil.copytree(LAUNCHERS.parents[1] / icons, packaging.parent / icons)
    (packaging / "bootstrap.py").write_text(
        "import pathlib, sys\npathlib.Path(__file__).with_name('started').write_text(repr(sys.argv[1:]))\n"
    )
    return packaging


def _environment(folder: Path) -> dict[str, str]:
    """No terminal program on the path, and a home of its own."""
    tools = folder / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname", "readlink", "mkdir", "sed", "awk", "cp", "rm"):
        (tools / tool).symlink_to(shutil.which(tool) or "missing")
    (tools / "python3").symlink_to(sys.executable)
    return {"PATH": str(tools), "HOME": str(folder / "home")}


def _command(entry: configparser.SectionProxy, file: Path, opened: str = "") -> list[str]:
    """What a desktop makes of an entry: `%k` is its file, `%u` what was opened, left out when nothing was."""
    words = [str(file) if word == "%k" else word for word in shlex.split(entry["Exec"])]
    words = [opened if word == "%u" else word.replace("%%", "%") for word in words]
    return [word for word in words if word]


@posix_only
@pytest.mark.parametrize("opened", ["", "/home/a b/my pc.soulsgui", "soulsgui://join/abc"])
def test_the_desktop_entry_starts_the_program_with_what_was_opened(tmp_path: Path, opened: str) -> None:
    packaging = _tree(tmp_path)
    file = packaging / "launchers" / "SoulsGUI.desktop"
    assert os.access(file, os.X_OK), "desktops start no other"
    subprocess.run(_command(_entry(file), file, opened), env=_environment(tmp_path), check=True)
    wanted = ["--", "gui", opened] if opened else ["--", "gui"]
    assert (packaging / "started").read_text() == repr(wanted)


@posix_only
def test_a_later_start_writes_into_a_log_of_the_user_and_the_mac_launcher_starts(tmp_path: Path) -> None:
    packaging, environment = _tree(tmp_path), _environment(tmp_path)
    stamp = packaging.parent / ".venv" / "bootstrap.json"
    stamp.parent.mkdir()
    stamp.touch()
    for launcher in ("soulsgui.sh", "SoulsGUI.command"):
        subprocess.run([packaging / "launchers" / launcher], env=environment, check=True)
        (packaging / "started").unlink()
    assert (tmp_path / "home/.local/state/SoulsGUI/start.log").exists()


@posix_only
def test_the_menu_entry_starts_the_program_from_its_folder_and_can_be_removed(tmp_path: Path) -> None:
    packaging, environment = _tree(tmp_path), _environment(tmp_path)
    install = packaging / "launchers" / "install-linux.sh"
    subprocess.run([install], env=environment, check=True, capture_output=True)
    shared = tmp_path / "home" / ".local" / "share"
    file, kind = shared / "applications/soulsgui.desktop", shared / "mime/packages/soulsgui.xml"
    entry = _entry(file)
    icons = list((shared / "icons" / "hicolor").glob("*/apps/soulsgui.png"))
    assert len(icons) == 8
    subprocess.run(_command(entry, file, "a.soulsgui"), env=environment, check=True)
    assert (packaging / "started").read_text() == "['--', 'gui', 'a.soulsgui']"
    kinds = entry["MimeType"].split(";")
    assert "x-scheme-handler/soulsgui" in kinds
    assert f'type="{kinds[0]}"' in kind.read_text()
    subprocess.run([install, "remove"], env=environment, check=True, capture_output=True)
    assert not any(path.exists() for path in (file, kind, *icons))


def test_on_windows_the_set_up_has_a_console_and_the_window_has_none(tmp_path: Path) -> None:
    loader = importlib.machinery.SourceFileLoader("windows_launcher", str(LAUNCHERS / "SoulsGUI.pyw"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    launcher = importlib.util.module_from_spec(spec)
    loader.exec_module(launcher)
    python = tmp_path / "pythonw.exe"
    first, first_flags = launcher.start_command(tmp_path, python, ready=False)
    assert first == [str(tmp_path / "python.exe"), str(tmp_path / "packaging" / "bootstrap.py")]
    later, later_flags = launcher.start_command(tmp_path, python, ready=True)
    assert later[0].endswith("pythonw.exe")
    assert (first_flags, later_flags) == (0x10, 0)  # CREATE_NEW_CONSOLE
    for ready, opened in ((True, [*later, "x"]), (False, [*first, "--", "gui", "x"])):
        assert launcher.start_command(tmp_path, python, ready, ["x"])[0] == opened
