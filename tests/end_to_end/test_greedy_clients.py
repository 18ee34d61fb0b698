"""Evaluations of a game that the server can't make: a client plays them, and they choose the best model."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import soulsgui
from soulsgui.wire.manifest import MANIFEST, read_manifest
from tests.end_to_end.server import RunningServer, command_line, wait_for

GAME = """
import gymnasium
import numpy as np

class Game(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.last = 0, None
        return np.zeros(2, np.float32), {}

    def step(self, action):
        # Who explores changes its mind; who acts greedily never does, whatever it has learned.
        reward = float(self.last in (None, action))
        self.steps, self.last = self.steps + 1, action
        return np.zeros(2, np.float32), reward, self.steps == 20, False, {}

gymnasium.register("Greedy-v0", Game)
"""

OVERRIDES = {
    "env.id": "game_greedy:Greedy-v0",
    "env.num_envs": 2,
    "clients.local": 0,
    "algorithm": "dqn",
    "dqn.epsilon": 1.0,
    "dqn.learning_starts": 64,
    "dqn.batch_size": 16,
    "dqn.replay_ratio": 1.0,
    "network.hidden_sizes": [8],
    "evaluation.every_updates": 20,
    "evaluation.episodes": 3,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path)
    yield running
    running.close()


def test_a_client_plays_the_evaluations_that_the_server_can_not(server: RunningServer) -> None:
    (server.folder / "game_greedy.py").write_text(GAME)
    root = Path(soulsgui.__file__).parents[1]
    folder = Path(server.api.command("run.start", {"overrides": OVERRIDES})["run_dir"])
    wait_for(lambda: server.status().run.state == "waiting", "the run waits for its client", 90)
    places = os.pathsep.join([str(root), str(server.folder)])
    with (server.folder / "client.log").open("ab") as log:
        client = subprocess.Popen(
            command_line("client", "--name", "gamer", folder=server.folder),
            env=os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"},
            stderr=log,
        )
    try:
        best = folder / "best_model" / MANIFEST
        # By training another one may have been the best before it was known that a client evaluates.
        wait_for(lambda: best.exists() and read_manifest(best.parent).score == 20, "it judges", 90)
        server.api.command("run.stop", {})
    finally:
        client.kill()
        client.wait()
    store = sqlite3.connect(folder / "telemetry.sqlite")
    played = store.execute(
        "SELECT number, length, total_return FROM greedy_episodes ORDER BY model_id, number"
    )
    assert played.fetchall()[:3] == [(number, 20, 20.0) for number in range(3)]
    # Of the training, which explores at random, no episode comes near.
    assert store.execute("SELECT max(total_return) < 20 FROM episodes").fetchone() == (1,)
    store.close()
