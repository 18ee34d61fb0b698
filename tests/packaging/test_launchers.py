import configparser
import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image

from soulsgui.cli.parser import parse
from tests.registry import Registry

LAUNCHERS = Path(__file__).parents[2] / "packaging" / "launchers"
CLASSES = r"Software\Classes"
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


def _launcher(name: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("windows_launcher", str(LAUNCHERS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    launcher = importlib.util.module_from_spec(spec)
    loader.exec_module(launcher)
    return launcher


def test_on_windows_the_set_up_has_a_console_and_the_window_has_none(tmp_path: Path) -> None:
    launcher = _launcher("SoulsGUI.pyw")
    python = tmp_path / "pythonw.exe"
    first, first_flags = launcher.start_command(tmp_path, python, ready=False)
    assert first == [str(tmp_path / "python.exe"), str(tmp_path / "packaging" / "bootstrap.py")]
    later, later_flags = launcher.start_command(tmp_path, python, ready=True)
    assert later[0].endswith("pythonw.exe")
    assert (first_flags, later_flags) == (0x10, 0)  # CREATE_NEW_CONSOLE
    for ready, opened in ((True, [*later, "gui", "x"]), (False, [*first, "--", "gui", "x"])):
        assert launcher.start_command(tmp_path, python, ready, "x")[0] == opened


def test_on_windows_a_link_with_quotes_gives_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher, started = _launcher("SoulsGUI.pyw"), []
    starts = SimpleNamespace(Popen=lambda command, **_: started.append(command))
    monkeypatch.setattr(launcher, "subprocess", starts)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # What Windows makes of `"%1"` and `soulsgui://join/a" --config-dir \\evil\c "`.
    monkeypatch.setattr(sys, "argv", ["SoulsGUI.pyw", "soulsgui://join/a", "--config-dir", r"\\evil\c", ""])
    launcher.main()
    link = r"soulsgui://join/a --config-dir \\evil\c "
    assert started[0][-2:] == ["gui", link]
    arguments = parse(["gui", link])
    assert (arguments.invitation, arguments.config_dir) == (link, None)


class Windows:
    """What `install-windows.py` meets there: a registry, an Explorer, a PowerShell, a folder with Python."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registry = Registry()
        self.told: list[int] = []
        self.started: list[tuple[list[str], dict[str, str]]] = []
        self.answer: int | Exception = 0
        self.python = folder / "my 100% python" / "pythonw.exe"
        self.python.parent.mkdir()
        self.python.touch()
        self.entry = folder / "Roaming/Microsoft/Windows/Start Menu/Programs/SoulsGUI.lnk"
        self.entry.parent.mkdir(parents=True)
        self.launcher = folder / "it's 50% & $(more)" / "SoulsGUI.pyw"
        self._script = _launcher("install-windows.py")
        monkeypatch.setattr(self._script, "LAUNCHER", self.launcher)
        monkeypatch.setattr(sys, "_base_executable", str(self.python.with_name("python.exe")), raising=False)
        monkeypatch.setenv("APPDATA", str(folder / "Roaming"))
        monkeypatch.setenv("SYSTEMROOT", str(folder / "Windows"))

    def install(self, *words: str) -> None:
        shell = SimpleNamespace(SHChangeNotify=lambda what, *_: self.told.append(what))
        self._script.main(words, self.registry, shell, self._run)

    def _run(self, argv: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        self.started.append((argv, env))
        if isinstance(self.answer, Exception):
            raise self.answer
        self.entry.touch()
        return subprocess.CompletedProcess(argv, self.answer, "", "Access denied\nAt line 1" * self.answer)

    def opens(self, kind: str, opened: str) -> list[str]:
        """What the Explorer makes of the command of a kind."""
        line, _ = self.registry.keys[rf"{CLASSES}\{kind}\shell\open\command"][""]
        filled = re.sub("%(.)", lambda found: opened if found[1] == "1" else found[1], line)
        return re.findall('"(.*?)"', filled)


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Windows:
    return Windows(tmp_path, monkeypatch)


def test_on_windows_links_and_files_open_the_program_until_it_is_removed(windows: Windows) -> None:
    other = rf"{CLASSES}\.txt"
    with windows.registry.CreateKey(Registry.HKEY_CURRENT_USER, other):
        pass
    for _ in range(2):
        windows.install()
    keys = windows.registry.keys
    assert "URL Protocol" in keys[rf"{CLASSES}\soulsgui"]
    kind, _ = keys[rf"{CLASSES}\.soulsgui"][""]
    for name, opened in (("soulsgui", "soulsgui://join/a%20b"), (kind, r"C:\my files\a.soulsgui")):
        assert windows.opens(name, opened) == [str(windows.python), str(windows.launcher), opened]
        icon, _ = keys[rf"{CLASSES}\{name}\DefaultIcon"][""]
        assert Path(icon.removesuffix(",0")).is_file()
    with windows.registry.CreateKey(Registry.HKEY_CURRENT_USER, rf"{CLASSES}\{kind}\shell\edit"):
        pass  # which Windows, or its user, may have added
    for _ in range(2):
        windows.install("remove")
    assert [key for key in keys if key.startswith(CLASSES)] == [CLASSES, other]
    assert not windows.entry.exists()
    assert windows.told == [0x0800_0000] * 4  # SHCNE_ASSOCCHANGED


def test_on_windows_no_path_is_part_of_what_powershell_runs(windows: Windows, tmp_path: Path) -> None:
    windows.install()
    ((argv, env),) = windows.started
    assert Path(argv[0]).parent == tmp_path / "Windows/System32/WindowsPowerShell/v1.0"
    assert not any(str(tmp_path) in word for word in argv[1:])
    shown = {name: env[f"SOULSGUI_{name}"] for name in ("ENTRY", "PYTHON", "ARGUMENTS")}
    launcher = f'"{windows.launcher}"'
    assert shown == {"ENTRY": str(windows.entry), "PYTHON": str(windows.python), "ARGUMENTS": launcher}
    assert set(re.findall(r"\$env:(\w+)", argv[-1])) <= set(env)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (1, "Access denied"),
        (FileNotFoundError("powershell.exe"), "PowerShell does not answer."),
        (subprocess.TimeoutExpired("powershell", 60), "PowerShell does not answer."),
    ],
)
def test_on_windows_a_menu_without_an_entry_is_told_in_one_line(
    windows: Windows, capsys: pytest.CaptureFixture[str], answer: int | Exception, why: str
) -> None:
    windows.answer = answer
    windows.install()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f": {why}")
    assert windows.opens("soulsgui", "soulsgui:x")[-1] == "soulsgui:x"


def test_the_icon_for_windows_holds_the_pictures_beside_it() -> None:
    icons = LAUNCHERS.parents[1] / "resources/icons/app"
    with Image.open(icons / "app.ico") as icon:
        sizes = icon.info["sizes"]
        assert sizes == {(size, size) for size in (16, 24, 32, 48, 64, 128, 256)}
        for size in sizes:
            icon.size = size
            with Image.open(icons / f"app-{size[0]}.png") as picture:
                assert icon.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()
