"""A whole runner, for the tests of its parts that need one."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from soulsgui.config.paths import Folders
from soulsgui.runner import services
from soulsgui.runner.app import Runner
from tests.runner.running import FAKE_PROGRAM, new_runner


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data")


@pytest.fixture
def fake_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The services of a run are the stand-ins of `fake_program.py`."""
    monkeypatch.setattr(services, "own_command", lambda role: [sys.executable, str(FAKE_PROGRAM), role])


@pytest.fixture
async def runner(folders: Folders, fake_services: None) -> AsyncIterator[Runner]:
    """An open runner without a run."""
    made = new_runner(folders)
    await made.open()
    yield made
    await made.close()
