from pathlib import Path

import pytest

from soulsgui.cli.main import run
from soulsgui.cli.parser import parse
from soulsgui.cli.window import without_screen

LINUX_ONLY = pytest.mark.skipif(not Path("/proc").exists(), reason="X11 is looked for on Linux only")


@pytest.mark.parametrize("words", [[], ["gui"], ["--data-dir", "d"], ["gui", "--mode", "server"]])
def test_the_window_is_what_starts_when_no_command_is_named(words: list[str]) -> None:
    assert parse(words).handler == "soulsgui.cli.window:gui"


def test_the_side_to_show_can_be_named_without_the_command() -> None:
    arguments = parse(["--config-dir", "c", "--mode", "client"])
    assert arguments.handler == "soulsgui.cli.window:gui"
    assert (arguments.mode, arguments.config_dir) == ("client", Path("c"))


def test_wrong_use_is_still_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--mode", "boss"], ["gui", "--idle"], ["nonsense"]):
        with pytest.raises(SystemExit) as ended:
            parse(words)
        assert ended.value.code == 2
    assert "invalid choice" in capsys.readouterr().err


def test_settings_do_not_go_with_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gui", "--set", "seed=1"]) == 2
    assert "soulsgui config set" in capsys.readouterr().err


def test_without_a_screen_the_reason_is_named() -> None:
    assert "DISPLAY" in without_screen({}, "linux")
    assert not without_screen({}, "win32")
    assert not without_screen({"QT_QPA_PLATFORM": "offscreen"}, "linux")
    assert not without_screen({"WAYLAND_DISPLAY": "wayland-0"}, "linux")


@LINUX_ONLY
@pytest.mark.parametrize("display", [":987", "localhost:987.0", "nonsense"])
def test_a_screen_that_is_gone_is_noticed_before_qt_crashes(display: str) -> None:
    assert display in without_screen({"DISPLAY": display}, "linux")
