"""Nodes and connectors of one's own programs meet on a Redis server, without a runner: docs/python.md."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.training.checkpoint import newest_resumable
from tests.end_to_end.server import wait_for
from tests.faults.waiting import LIMIT_S

ROOT = Path(__file__).parents[2]


def _of_page() -> tuple[str, str]:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    trainer, player = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    # Fewer and shorter rounds than it plays for a reader.
    assert ('"n_steps": 512' in trainer, "range(20)" in player) == (True, True)
    return trainer.replace('"n_steps": 512', '"n_steps": 128'), player.replace("range(20)", "range(8)")


class _Home:
    """A user's folders; programs are started in it as this user would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data" / "SoulsGUI"
        places = {"XDG_DATA_HOME": str(root / "data"), "XDG_CONFIG_HOME": str(root / "config")}
        self._env = os.environ | places | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    @contextmanager
    def started(self, name: str, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a Python program; it is interrupted at the end, as by Ctrl+C."""
        with (self.root / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *words], env=self._env, cwd=self.root, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(LIMIT_S)
            finally:
                process.kill()
                process.wait()

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text(encoding="utf-8", errors="replace")


@pytest.mark.timeout(600)
def test_a_node_and_a_connector_meet_without_a_runner_and_again_after_kills(tmp_path: Path) -> None:
    home = _Home(tmp_path)
    for name, text in zip(("trainer", "player"), _of_page(), strict=True):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    with ExitStack() as running:

        def start(name: str, *words: str) -> "subprocess.Popen[bytes]":
            return running.enter_context(home.started(name, *words))

        redis = start("redis", "-m", "soulsgui", "redis")
        wait_for((home.data / "server" / "redis.json").exists, "the server's address")
        trainer, player = start("trainer", "trainer.py"), start("player", "player.py")
        wait_for(lambda: "model 2:" in home.log("player") or player.poll() is not None, "weights")
        assert player.poll() is None, home.log("player")
        (server,) = psutil.Process(redis.pid).children()
        for process in (redis, trainer):
            process.kill()
            process.wait()
        second = start("second", "-m", "soulsgui", "redis")
        assert second.wait(LIMIT_S) == 1
        assert "is there already" in home.log("second"), "its server lives on, where the player knows it"
        server.kill()
        wait_for(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, "its end")
        (data,) = (home.data / "server").glob("*-data")
        shutil.rmtree(data)
        start("redis", "-m", "soulsgui", "redis")
        with home.started("trainer", "trainer.py") as trainer:
            wait_for(lambda: player.poll() is not None or trainer.poll() is not None, "the player's end", 300)
            assert (player.poll(), trainer.poll()) == (0, None), home.log("player") + home.log("trainer")
        assert trainer.returncode == 0, home.log("trainer")
    (run,) = (home.data / "runs").iterdir()
    assert newest_resumable(RunFolder(run)) is not None, "it was saved at its end"
