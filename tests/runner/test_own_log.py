"""The runner's own log."""

import io
import logging
import sys
from pathlib import Path

import pytest

from soulsgui.process import parse_line
from soulsgui.runner.logs import LogFile
from soulsgui.runner.own_log import OwnLog


@pytest.mark.allow_warnings
def test_log_is_written_in_the_form_of_the_services(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "runner.log"
    log = OwnLog(path)
    logging.getLogger("soulsgui.test").error("ärger")
    log.close()
    logging.getLogger("soulsgui.test").error("not any more")
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert "start of runner" in first
    parsed = parse_line(second)
    assert (parsed.level, parsed.text) == ("error", "soulsgui.test: ärger")


@pytest.mark.allow_warnings
def test_nothing_stands_twice_where_standard_error_is_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runner.log"
    with path.open("a", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        handler = logging.StreamHandler(stream)
        logging.getLogger().addHandler(handler)
        log = OwnLog(path)
        logging.getLogger("soulsgui.test").error("once")
        log.close()
        logging.getLogger().removeHandler(handler)
    assert path.read_text(encoding="utf-8").count("once") == 1


@pytest.mark.allow_warnings
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_costs_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LogFile, "open", lambda *_: io.FileIO("/dev/full", "a"))
    log = OwnLog(tmp_path / "runner.log")
    logging.getLogger("soulsgui.test").error("lost")
    log.close()
    assert "Logging error" not in capsys.readouterr().err
