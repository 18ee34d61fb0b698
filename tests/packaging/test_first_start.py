"""The parts of the set-up: choice of torch, what is seen, what went wrong, Qt's libraries, leftovers."""

import http.server
import io
import re
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from first_start import screen, torch_build
from first_start.failure import SetupError, explain
from first_start.main import main, split_arguments
from first_start.plan import Pin
from first_start.progress import Console, Progress
from first_start.steps import pip_environment
from first_start.torch_build import TorchBuild
from first_start.venv import Venv

from soulsgui import system

MACHINE = "Linux x86_64, Python 3.11.2"
PINS = [Pin("a", "1.0", 80.0, "base"), Pin("b", "1.0", 0.1, "base"), Pin("c", "1.0", 0.1, "base")]


def choose(platform: str, **given: Any) -> TorchBuild:
    usual = {"nvidia": False, "local_wheel": None}
    usual["cpu_index_answers"] = lambda: pytest.fail("the index must not be asked")
    return torch_build.choose(platform=platform, **usual | given)


def test_the_build_of_torch_is_the_smallest_that_serves() -> None:
    cpu, away = (choose("linux", cpu_index_answers=lambda answer=one: answer) for one in (True, False))
    assert (cpu.index, away.index) == (torch_build.CPU_INDEX, "")
    assert 1 <= cpu.download_mb < 300 < 3000 <= away.download_mb < 9000
    assert "does not answer" in away.reason
    cuda = choose("linux", nvidia=True)
    assert (cuda.index, cuda.download_mb) == ("", away.download_mb)
    assert "CUDA" in cuda.reason
    for elsewhere in (choose("win32"), choose("darwin")):
        assert (elsewhere.index, elsewhere.download_mb) == ("", cpu.download_mb), "PyPI's is the small one"
    here = choose("linux", nvidia=True, local_wheel=Path("/here/torch.whl"))
    assert (here.index, here.download_mb) == ("", 0)
    assert "/here" in here.reason


def test_only_a_wheel_that_pip_would_take_counts_and_a_driver_is_seen_by_its_files(tmp_path: Path) -> None:
    fitting = ["torch-2.13.0+cpu-cp311-cp311-linux.whl", "torch-2.13.0-cp311-none-macosx_14_0_arm64.whl"]
    others = ["torch-2.13.0-cp312-cp312-linux.whl", "torch-2.13.01-cp311-cp311-linux.whl"]
    others += ["torch-2.14.1-cp311-cp311-linux.whl", "torch-2.13.0.tar.gz"]
    for name in fitting + others:
        wheel = tmp_path / name
        wheel.touch()
        found = torch_build.local_torch_wheel([tmp_path / "missing", tmp_path], "2.13.0", "cp311")
        assert found == (wheel if name in fitting else None)
        wheel.unlink()
    assert torch_build.has_nvidia_driver(lambda path: path == "/dev/nvidia0")
    assert not torch_build.has_nvidia_driver(lambda path: False)


def test_an_index_answers_or_not_within_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "there").touch()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        index = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answers = torch_build.url_answers(f"{index}/there"), torch_build.url_answers(f"{index}/missing")
        server.shutdown()
        thread.join()
        assert answers == (True, False)
        # It listens and says nothing: without the limit this would never come back.
        assert not torch_build.url_answers(f"{index}/there", timeout_s=0.2)
    assert not torch_build.url_answers(f"{index}/there"), "nobody listens"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("ERROR: Could not install due to an OSError: [Errno 28] No space left on device", "disk is full"),
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(...)'\n"
            "ERROR: No matching distribution found for aiohttp>=3.13",
            "could not be reached",
        ),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]", "certificate"),
        ("ERROR: No matching distribution found for torch==2.13.0", f"torch for this machine ({MACHINE})"),
        ("    The user requested (constraint) box2d==2.3.10", f"box2d for this machine ({MACHINE})"),
        ("  ERROR: Failed building wheel for Box2D", "no ready build of Box2D"),
        ("ERROR: Could not install: [Errno 13] Permission denied: '/x'", "can't be written"),
        ("something new", "A step of the set-up failed."),
    ],
)
def test_a_failure_is_told_in_words_with_a_remedy(output: str, message: str) -> None:
    error = explain(output, MACHINE)
    assert message in error.message
    assert "ype the same command again" in error.remedy


@pytest.mark.parametrize(
    ("line", "text", "notable"),
    [
        ("Collecting pytest-qt>=4.5 (from soulsgui==0.1.0)\n", "1 of 3 · looking for pytest-qt", False),
        ("Requirement already satisfied: PySide6<7 in /x\n", "1 of 3 · looking for PySide6", False),
        ("Processing /my wheels/numpy-2.4.6-cp311-x.whl (from a)\n", "1 of 3 · looking for numpy", False),
        ("  Downloading pytest_qt-4.5.0-py3.whl (37 kB)\n", "0 of 3 · downloading pytest_qt (37 kB)", False),
        ("  Downloading https://x.org/cpu/torch-2.13.0%2Bcpu.whl (191.8 MB)\n",
         "0 of 3 · downloading torch (191.8 MB)", True),
        ("Installing collected packages: b, a, soulsgui\n", "installing 1 of 3: b", True),
        ("  Preparing metadata: started\n", "asking the package index", False),
        ("", "asking the package index", False),
    ],
)  # fmt: skip
def test_a_line_of_pip_becomes_a_count_and_a_word(line: str, text: str, notable: bool) -> None:
    progress = Progress(PINS)
    assert (progress.feed(line), progress.text) == (notable, text)


def test_the_count_never_passes_what_is_needed_and_a_silent_index_is_told_once() -> None:
    progress = Progress(PINS[:2])
    for _ in range(5):
        progress.feed("Collecting numpy\n")
    assert progress.text.startswith("2 of 2 ")
    line = "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'X'\n"
    assert [progress.feed(line), progress.feed(line)] == [True, False]


def test_while_pip_says_nothing_what_it_has_installed_is_counted(tmp_path: Path) -> None:
    venv = make_venv(tmp_path)
    add_package(venv, "c-1.0+cpu.dist-info")
    older = add_package(venv, "a-0.9.dist-info")
    progress = Progress(PINS, installed=venv.installed)
    assert progress.feed("Installing collected packages: B, soulsgui, a\n")
    half = add_package(venv, "b-1.0.dist-info", whole=False)
    assert not progress.feed("")
    assert progress.text == "installing 2 of 3: b"
    (half / "RECORD").touch()
    assert progress.feed(""), "a is large"
    assert progress.text == "installing 3 of 3: a"
    shutil.rmtree(older)
    add_package(venv, "a-1.0.dist-info")
    assert not progress.feed("")
    assert progress.text == "installing 3 of 3: a", "until pip ends"


class _Terminal(io.TextIOWrapper):
    """Output, or with an answer the input, of a terminal where somebody sits, or of none."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool, answer: str = "") -> None:
        self.bytes = io.BytesIO(answer.encode())
        super().__init__(self.bytes, encoding=encoding, newline="")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "shown"),
    [
        # One line that changes.
        ("utf-8", True, r"\r  \[  1 s\] 1 of 3 · small +\r  \[ 12 s\] 2 of 3 · large +\nDone ·\n"),
        # A line for what is notable alone, with the characters that there are.
        ("utf-8", False, r"  \[ 12 s\] 2 of 3 · large\nDone ·\n"),
        ("ascii", False, r"  \[ 12 s\] 2 of 3 \? large\nDone \?\n"),
    ],
)
def test_progress_is_one_line_or_elsewhere_what_is_notable(encoding: str, terminal: bool, shown: str) -> None:
    stream = _Terminal(encoding, terminal=terminal)
    console = Console(stream, iter([0.0, 1.0, 12.0]).__next__)
    console.show("1 of 3 · small", notable=False)
    console.show("2 of 3 · large", notable=True)
    console.say("Done ·")
    assert re.fullmatch(shown, stream.bytes.getvalue().decode(encoding))


@pytest.mark.parametrize("platform", ["linux", "win32", "darwin"])
@pytest.mark.parametrize("env", [{}, {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "w"}, {"DISPLAY": ""}])
def test_set_up_and_program_agree_on_the_screen(platform: str, env: dict[str, str]) -> None:
    assert screen.has_screen(env, platform) is system.has_screen(env, platform)


def test_a_library_that_can_not_be_loaded_is_missing_and_those_of_x11_are_needed_where_it_is() -> None:
    alone = set(screen.needed_libraries({}, "linux"))
    assert set(screen.needed_libraries({"DISPLAY": ":0"}, "linux")) > alone
    assert screen.needed_libraries({"DISPLAY": ":0"}, "darwin") == {}
    assert screen.missing_libraries(["libnothing.so.9"]) == ["libnothing.so.9"]
    assert screen.missing_libraries(["libthere.so.1"], load=lambda name: object()) == []


def test_who_may_not_install_is_told_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "missing_libraries", lambda libraries: ["libEGL.so.1", "libGL.so.1"])
    monkeypatch.setattr(screen.os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match=r"libEGL\.so\.1, libGL\.so\.1") as caught:
        screen.ensure_libraries({}, "linux", print)
    assert "sudo apt install libegl1 libgl1\n" in caught.value.remedy


def apt(folder: Path, script: str) -> dict[str, str]:
    """An environment whose apt-get does this."""
    made = folder / "apt-get"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("answer", "ci", "asked", "installed"),
    [
        (None, "", False, True),
        ("n\n", "true", False, True),
        *((answer, "", True, True) for answer in ("\n", "Yes\n")),
        *((answer, "", True, False) for answer in ("n\n", "what?\n", "")),
    ],
)
def test_root_is_asked_before_apt_installs_unless_nobody_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, ci: str, asked: bool, installed: bool
) -> None:
    calls = tmp_path / "calls"
    calls.touch()
    env = apt(tmp_path, f'echo "$DEBIAN_FRONTEND $*" >> "{calls}"') | {"CI": ci}
    monkeypatch.setattr(screen, "QT_LIBRARIES", {"libnothing.so.9": "libnothing9"})
    monkeypatch.setattr(screen.os, "geteuid", lambda: 0)
    monkeypatch.setattr("sys.stdin", _Terminal(terminal=answer is not None, answer=answer or ""))
    said: list[str] = []
    with pytest.raises(SetupError, match=r"libnothing\.so\.9") as caught:
        screen.ensure_libraries(env, "linux", said.append)
    assert said[0] == "The window needs system packages: libnothing9"
    assert ("Install them now with apt-get? [Y/n]" in said) is asked
    assert "sudo apt install libnothing9\n" in caught.value.remedy
    update = "noninteractive --quiet=2 update"
    install = "noninteractive --quiet=2 install --yes --no-install-recommends libnothing9"
    assert calls.read_text().splitlines() == ([update, install] if installed else [])


@pytest.mark.processes
def test_what_apt_says_when_it_fails_is_passed_on(tmp_path: Path) -> None:
    env = apt(tmp_path, "echo 'E: no network' >&2; exit 100")
    with pytest.raises(SetupError, match="apt-get update failed: E: no network"):
        screen.install_packages(["libegl1"], env)


def make_venv(folder: Path, cfg: str = "version = 3.11.2\n") -> Venv:
    venv = Venv(folder, "linux")
    venv.python.parent.mkdir(parents=True)
    venv.python.touch()
    (venv.folder / "pyvenv.cfg").write_text(cfg)
    (venv.folder / "lib/python3.11/site-packages").mkdir(parents=True)
    return venv


def add_package(venv: Venv, folder: str, *, whole: bool = True) -> Path:
    info = venv.folder / "lib/python3.11/site-packages" / folder
    info.mkdir()
    for name in ("METADATA", "RECORD") if whole else ("METADATA",):
        (info / name).touch()
    return info


def test_what_an_interruption_left_in_pieces_is_removed_and_not_counted(tmp_path: Path) -> None:
    venv = make_venv(tmp_path)
    whole = add_package(venv, "pyside6_essentials-6.11.3.dist-info")
    half = add_package(venv, "torch-2.13.0+cpu.dist-info", whole=False)
    left = add_package(venv, "~umpy")
    assert venv.installed() == {"pyside6-essentials": "6.11.3"}
    assert sorted(venv.remove_half_installed()) == ["torch-2.13.0+cpu.dist-info", "~umpy"]
    assert (whole.exists(), half.exists(), left.exists()) == (True, False, False)
    windows = Venv(tmp_path, "win32")
    (tmp_path / ".venv/Lib/site-packages/torch-2.13.0.dist-info").mkdir(parents=True)
    assert windows.python == tmp_path / ".venv/Scripts/python.exe"
    assert windows.remove_half_installed() == ["torch-2.13.0.dist-info"]


def test_an_environment_belongs_to_the_place_where_it_was_made(tmp_path: Path) -> None:
    here = f"version = 3.11.2\ncommand = /usr/bin/python3 -m venv {tmp_path}/.venv\n"
    assert make_venv(tmp_path, here).belongs_here()
    assert make_venv(tmp_path / "other-tool", "version_info = 3.12.1.final.0\n").belongs_here()
    copied = make_venv(tmp_path / "copied", here)
    add_package(copied, "torch-2.13.0.dist-info")
    assert not copied.belongs_here()
    assert copied.installed() == {}
    assert not Venv(tmp_path / "nothing").belongs_here()
    bare = make_venv(tmp_path / "bare")
    bare.python.unlink()
    assert not bare.belongs_here()


def test_clearing_keeps_the_lock_and_the_log_and_what_links_lead_to(tmp_path: Path) -> None:
    venv = make_venv(tmp_path)
    venv.lock.touch()
    venv.log.touch()
    (tmp_path / "elsewhere").mkdir()
    (venv.folder / "lib64").symlink_to(tmp_path / "elsewhere")
    venv.clear()
    assert {path.name for path in venv.folder.iterdir()} == {"bootstrap.lock", "bootstrap.log"}
    assert (tmp_path / "elsewhere").exists()


def test_the_first_double_dash_divides() -> None:
    assert split_arguments(["test", "--", "-k", "--", "x"]) == (["test"], ["-k", "--", "x"])
    assert split_arguments(["setup"]) == (["setup"], [])


def test_pip_is_kept_inside_the_environment_and_to_the_constraints() -> None:
    elsewhere = dict.fromkeys(("PIP_TARGET", "PYTHONHOME", "PYTHONPATH"), "/x")
    kept = {"PIP_CONSTRAINT": "packaging/constraints.txt", "PIP_USER": "0", "LANG": "C"}
    env = pip_environment(elsewhere | {"PIP_USER": "1", "LANG": "C"})
    assert {name: value for name, value in env.items() if name in elsewhere or name in kept} == kept


def test_a_wrong_invitation_ends_the_set_up_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert main(["client", str(tmp_path / "none.soulsgui")], tmp_path) == 1
    assert "There is no invitation in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
