import sys
from pathlib import Path

import pytest

from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError
from soulsgui.runner.run import start
from soulsgui.runner.run.start import probe_environment


async def test_real_environment_tells_its_spaces_and_an_unknown_one_is_named() -> None:
    report = await probe_environment(Settings(), print)
    assert report["spaces"]["observation"]["shape"] == [4]
    assert report["spaces"]["action"]["n"] == 2
    settings = Settings.model_validate({"env": {"id": "CartPool-v1"}})
    with pytest.raises(EnvironmentCheckError, match="CartPool"):
        await probe_environment(settings, print)


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = folder / "program.py"
    path.write_text(text)
    monkeypatch.setattr(start, "own_command", lambda _role: [sys.executable, str(path)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('no such game')", "no such game"),
        ("import os; os._exit(7)", "exit code 7"),
        ("print('[1]')", "could not be checked"),
        ('print(\'{"report": {"spaces": null, "problems": ["It raised."]}}\')', "It raised"),
        ('print(\'{"report": {"spaces": null, "problems": []}}\')', "no spaces"),
        ('print(\'{"report": {"spaces": {"a": 1}, "misfit": "no"}}\')', "could not be checked"),
        (
            "import json, sys; wanted = json.loads(sys.stdin.readline())['learner']; "
            "misfit = {'message': f'no {wanted}', 'remedy': ''}; "
            "print(json.dumps({'report': {'spaces': {'a': 1}, 'misfit': misfit}}))",
            r"^no \{'algorithm': 'ppo', 'network': 'mlp', 'channels': 'auto'\}$",
        ),
    ],
)
async def test_faults_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    program(tmp_path, monkeypatch, text)
    with pytest.raises(EnvironmentCheckError, match=said):
        await probe_environment(Settings(), print)


@pytest.mark.parametrize(
    ("hangs_in", "said"),
    [
        ("import", r"hangs: its import takes longer than 4 s"),
        ("reset", r"hangs: reset\(\) \(slowgame.py, line \d+\) takes longer than 4 s"),
        ("step", r"hangs: step 3 \(slowgame.py, line \d+\) takes longer than 4 s"),
    ],
)
async def test_a_hang_is_told_after_hang_seconds_with_the_call_it_hangs_in(
    games: None, monkeypatch: pytest.MonkeyPatch, hangs_in: str, said: str
) -> None:
    monkeypatch.setenv("SLOWGAME_HANGS_IN", hangs_in)
    with pytest.raises(EnvironmentCheckError, match=said) as caught:
        await probe_environment(slow_game({"hang_seconds": 4}), print)
    assert "client.hang_seconds" in caught.value.remedy


async def test_a_hanging_check_is_no_games_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(start, "_LOAD_LIMIT_S", 0.2)
    with pytest.raises(EnvironmentCheckError, match=r"had not started after 0\.2 s") as caught:
        await probe_environment(Settings(), print)
    assert "busy" in caught.value.remedy


def slow_game(client: dict[str, float], **kwargs: float) -> Settings:
    return Settings.model_validate({"env": {"id": "slowgame:Slow-v0", "kwargs": kwargs}, "client": client})


@pytest.mark.parametrize(
    ("client", "kwargs", "steps"),
    [
        ({"hang_seconds": 4}, {"step_s": 0.8}, range(2, 6)),
        ({"hang_seconds": 4, "step_seconds": 1.0}, {}, range(2, 6)),
        ({"hang_seconds": 5}, {"reset_s": 2.6}, range(1, 2)),
    ],
    ids=["slow", "real time", "slower than the check"],
)
async def test_of_a_slow_game_or_one_in_real_time_fewer_steps_are_played(
    games: None, client: dict[str, float], kwargs: dict[str, float], steps: range
) -> None:
    told: list[str] = []
    report = await probe_environment(slow_game(client, **kwargs), told.append)
    assert report["ok"]
    assert report["steps"] in steps
    assert told[:3] == ["its import", "being made", "reset()"]
    assert told[-2:] == [f"step {report['steps']}", "close()"]


@pytest.fixture
def games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the check find the module `slowgame`."""
    (tmp_path / "slowgame.py").write_text(
        """
import os, time
import gymnasium
import numpy as np

HANGS_IN = os.environ.get("SLOWGAME_HANGS_IN", "")


def hang(where):
    if HANGS_IN == where:
        time.sleep(600)


hang("import")


class Slow(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, step_s=0.0, reset_s=0.0):
        self.step_s, self.reset_s, self.steps = step_s, reset_s, 0

    def reset(self, seed=None, options=None):
        hang("reset")
        time.sleep(self.reset_s)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 3:
            hang("step")
        time.sleep(self.step_s)
        return np.zeros(2, np.float32), 0.0, False, False, {}


gymnasium.register("Slow-v0", Slow)
"""
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
