"""A game that is installed on a client's computer alone: its first client tells the server the spaces.

And a client plays the evaluations that the server can't.
"""

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import soulsgui
from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.control import Job
from soulsgui.wire.manifest import read_manifest
from tests.end_to_end.server import RunningServer, command_line, wait_for
from tests.faults.waiting import LIMIT_S

GAME = """
import os
import gymnasium
import numpy as np

SIZE = int(os.environ.get("GAME_SIZE", "3"))

class Game(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (SIZE,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.last = 0, None
        return np.zeros(SIZE, np.float32), {"action_mask": np.ones(2, np.int8)}

    def step(self, action):
        # Who explores changes its mind; who acts greedily never does, whatever it has learned.
        reward = float(self.last in (None, action))
        self.steps, self.last = self.steps + 1, action
        told = {"action_mask": np.ones(2, np.int8)}
        return np.zeros(SIZE, np.float32), reward, self.steps == 20, False, told

gymnasium.register("Elsewhere-v0", Game)
"""

OVERRIDES = {
    "env.id": "game_elsewhere:Elsewhere-v0",
    "env.num_envs": 2,
    "algorithm": "dqn",
    "dqn.epsilon": 1.0,
    "dqn.learning_starts": 64,
    "dqn.batch_size": 16,
    "dqn.replay_ratio": 1.0,
    "network.hidden_sizes": [8],
    "evaluation.every_updates": 20,
    "evaluation.episodes": 3,
}


@contextmanager
def playing(server: RunningServer, name: str, size: int = 3) -> Iterator["subprocess.Popen[bytes]"]:
    """Let a client play on the computer that has the game, until the block ends."""
    game = server.folder / "game"
    game.mkdir(exist_ok=True)
    (game / "game_elsewhere.py").write_text(GAME)
    root = Path(soulsgui.__file__).parents[1]
    places = os.pathsep.join([str(root), str(game)])
    with (
        (server.folder / f"{name}.log").open("ab") as log,
        subprocess.Popen(
            command_line("client", "--name", name, folder=server.folder),
            env=os.environ | {"PYTHONPATH": places, "GAME_SIZE": str(size)},
            stderr=log,
        ) as client,
    ):
        try:
            yield client
        finally:
            client.kill()


def ended(server: RunningServer, params: dict[str, object]) -> Job:
    """Ask for an evaluation, and return the job when it has ended."""
    job = Job.model_validate(server.api.command("checkpoint.evaluate", params))
    return wait_for(lambda: (now := server.api.job(job.id)).state != "running" and now, "it was played")


def score_of(checkpoint: Path) -> float | None:
    """Return the score of a checkpoint; None while there is none, or another one takes its place."""
    try:
        return read_manifest(checkpoint).score
    except CheckpointError:
        return None


def test_the_first_client_tells_the_spaces_and_plays_the_evaluations_that_the_server_can_not(
    tmp_path: Path,
) -> None:
    with closing(RunningServer(tmp_path)) as server:
        with pytest.raises(CommandFailedError, match="game_elsewhere") as refused:
            server.api.command("run.start", {"overrides": OVERRIDES | {"clients.local": 1}})
        assert "clients.local=0" in str(refused.value)
        files = RunFolder(server.begin("run.start", overrides=OVERRIDES | {"clients.local": 0}))
        run = wait_for(lambda: (now := server.status().run).state == "waiting" and now, "the run waits")
        assert run.detail == "for the first client to tell the spaces"
        with playing(server, "gamer"):
            server.wait_updates(2)
            assert json.loads(files.spaces.read_text())["action"]["masked"] is True
            with playing(server, "other", size=4) as other:
                assert other.wait(LIMIT_S) == 2
            assert "has other spaces here than on the server" in (server.folder / "other.log").read_text()
            # By training another one may have been the best before it was known that a client evaluates.
            wait_for(lambda: score_of(files.best_model) == 20, "it judges")
            unseen = ended(server, {"checkpoint": "newest", "video": "gif"})
            assert unseen.error is not None
            assert "without pictures" in unseen.error.message
            asked = ended(server, {"checkpoint": "newest", "episodes": 2})
            assert (asked.state, asked.result["returns"], asked.result["lengths"]) == (
                "done",
                [20.0] * 2,
                [20] * 2,
            )
            server.api.command("run.stop", {})
    with closing(sqlite3.connect(files.store)) as store:
        played = store.execute(
            "SELECT number, length, total_return FROM greedy_played ORDER BY model_id, number"
        )
        assert played.fetchall()[:3] == [(number, 20, 20.0) for number in range(3)]
        # Of the training, which explores at random, no episode comes near.
        assert store.execute("SELECT max(total_return) < 20 FROM episodes").fetchone() == (1,)
