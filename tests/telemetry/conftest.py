from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry import node as node_module
from soulsgui.wire.connection import Address
from tests.telemetry.helpers import RUN_ID, NoDrawing, Stage, make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run's folder; no figure is drawn in the middle of a test."""
    return make_run(tmp_path, telemetry={"figure_every_episodes": 10**9})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run's store is: in folders whose names have blanks and signs."""
    folder = tmp_path / "a run, 100 % #1?" / RUN_ID
    folder.mkdir(parents=True)
    return folder / "telemetry.sqlite"


@pytest.fixture
def stage(redis_address: Address) -> Iterator[Stage]:
    """The server as the other processes use it."""
    stage = Stage(redis_address)
    yield stage
    stage.redis.close()


@pytest.fixture
def quick_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that tells its state often and draws no figures."""
    monkeypatch.setattr(node_module, "Drawing", NoDrawing)
    monkeypatch.setattr(node_module, "_STATE_S", 0.02)
    monkeypatch.setattr(node_module, "_DISCOVER_S", 0.02)
