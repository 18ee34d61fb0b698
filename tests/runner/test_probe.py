"""The environment is examined in a process of its own."""

import sys
from pathlib import Path

import pytest

from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError
from soulsgui.runner import probe
from soulsgui.runner.probe import probe_environment


async def test_real_environment_tells_its_spaces() -> None:
    report = await probe_environment(Settings())
    assert report["spaces"]["observation"]["shape"] == [4]
    assert report["spaces"]["action"]["n"] == 2


async def test_unknown_environment_is_named() -> None:
    settings = Settings.model_validate({"env": {"id": "CartPool-v1"}})
    with pytest.raises(EnvironmentCheckError, match="CartPool"):
        await probe_environment(settings)


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = folder / "program.py"
    path.write_text(text)
    monkeypatch.setattr(probe, "own_command", lambda _role: [sys.executable, str(path)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('no such game')", "no such game"),
        ("import os; os._exit(7)", "exit code 7"),
        ("print('[1]')", "could not be checked"),
        ('print(\'{"spaces": null, "problems": ["It raised."]}\')', "It raised"),
        ('print(\'{"spaces": null, "problems": []}\')', "no spaces"),
        ('print(\'{"spaces": {"a": 1}, "misfit": "no"}\')', "could not be checked"),
        (
            "import json, sys; wanted = json.load(sys.stdin)['learner']; "
            "print(json.dumps({'spaces': {'a': 1}, 'misfit': {'message': f'no {wanted}', 'remedy': ''}}))",
            r"^no \{'algorithm': 'ppo', 'network': 'mlp', 'channels': 'auto'\}$",
        ),
    ],
)
async def test_failures_are_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    program(tmp_path, monkeypatch, text)
    with pytest.raises(EnvironmentCheckError, match=said):
        await probe_environment(Settings())


async def test_environment_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(probe, "TIMEOUT_S", 0.3)
    with pytest.raises(EnvironmentCheckError, match="did not answer"):
        await probe_environment(Settings())
