"""What a run begins with, and what one that is resumed may do otherwise; no process is started."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.declaring import Effect
from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import all_settings
from soulsgui.errors import UsageError
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.agreed import AgreedRuns
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.start import (
    Resumption,
    beginning,
    of_the_runner,
    resumption,
    spaces_are_known,
    write_spaces,
)
from soulsgui.wire.control import QueuedRun, RunResumeParams, RunStartParams
from soulsgui.wire.manifest import CONFIG, MANIFEST, sha256_of
from tests.runner.fake_program import save

MADE = 5_000
"""Environment steps that the run has made."""

RAMP = {"schedule": "linear", "from": 0.001, "to": 0.0}


class Stopped:
    """A run that is over, with settings of its own."""

    def __init__(self, root: Path) -> None:
        self.library = Library(root)
        self.agreed = AgreedRuns(Folders(root / "config", root))
        self.run = RunFolder(root)

    def make(self, reached: str = "stopped", **settings: Any) -> None:
        values = {key.replace("__", "."): value for key, value in settings.items()}
        self.run = self.library.create("", 0.0)
        self.library.write_settings(self.run, combine([Layer("test", values)]))
        fields: dict[str, Any] = {"id": self.run.run_id, "reached": reached, "env_steps": MADE}
        self.library.write_record(self.run, RunRecord(**fields, created=1.0, number=1))

    def resumed(self, overrides: dict[str, Any], **params: Any) -> Resumption:
        """Return how it would go on; that changes nothing on disk."""
        before = self.run.config.read_bytes()
        try:
            asked = RunResumeParams(overrides=overrides, **params)
            return resumption(self.library, self.agreed, asked)
        finally:
            assert self.run.config.read_bytes() == before


@pytest.fixture
def stopped(tmp_path: Path) -> Stopped:
    return Stopped(tmp_path / "runs")


def test_a_new_run_says_which_of_its_settings_differ_from_what_it_is_made_from(
    stopped: Stopped, folders: Folders
) -> None:
    def said(**asked: Any) -> str:
        return beginning(folders, stopped.library, RunStartParams(**asked), Layer("--set")).summary

    assert said(overrides={"ppo.clip": 0.2}) == "as the defaults"
    assert said(preset="cartpole_dqn", overrides={"dqn.batch_size": 64, "env.id": "Acrobot-v1"}) == (
        'env.id = "Acrobot-v1", dqn.batch_size = 64, else as preset cartpole_dqn'
    )
    folders.config.mkdir(parents=True, exist_ok=True)
    folders.overrides.write_text(
        "preset: cartpole_ppo\nppo: {clip: 0.1}\nredis: {port: 7777}\nalerts: {webhook: 'https://a.b/c'}\n"
    )
    assert said() == "ppo.clip = 0.1, else as preset cartpole_ppo"
    window = {"stop.window": 50}  # in the file it stands behind the clip; here comes first what was asked for
    assert said(overrides=window) == "stop.window = 50, ppo.clip = 0.1, else as preset cartpole_ppo"
    assert said(preset="cartpole_dqn") == "as preset cartpole_dqn", "those of PPO mean nothing to DQN"
    assert said(preset="cartpole_dqn", overrides={"stop.window": 50}).startswith("stop.window = 50, else")
    stopped.make()
    saved = stopped.run.manual_saves / "a"
    save(saved, stopped.run, "manual", 300)
    (saved / CONFIG).write_bytes(stopped.run.config.read_bytes())
    manifest = json.loads((saved / MANIFEST).read_bytes())
    manifest["files"][CONFIG] = {"sha256": sha256_of(saved / CONFIG), "size": (saved / CONFIG).stat().st_size}
    (saved / MANIFEST).write_text(json.dumps(manifest))
    place = f"{stopped.run.run_id}/manual_save/a"
    assert said(**{"from": place}) == f"as checkpoint {place}"
    assert said(**{"from": place}, overrides={"seed": 3}) == f"seed = 3, else as checkpoint {place}"
    long = said(overrides={"env.kwargs": {"text": "x" * 2000 + "\x1b"}})
    assert len(long) > 2000
    told = QueuedRun(number=1, config_summary=long).config_summary
    assert len(told) == 500
    assert told.isprintable()


def test_values_that_make_no_other_experiment_are_taken_and_told(stopped: Stopped) -> None:
    stopped.make(learner__processes=2)
    asked = {"learner.processes": 1, "learner.memory_limit": 0, "stop.window": 50, "seed": 1}
    found = stopped.resumed(asked)
    assert (found.settings.learner.processes, found.settings.stop.window) == (1, 50)
    assert found.words == (
        " with learner.processes = 1 (was 2), learner.memory_limit = 0 (was none), stop.window = 50 (was 20)"
    )
    assert stopped.resumed({}).words == ""
    assert stopped.resumed({"stop.mean_return": None}, without_goal=True).changes == ()
    save(stopped.run.manual_saves / "a", stopped.run, "manual", 300)
    found = stopped.resumed({"stop.env_steps": 400}, checkpoint="manual_save/a")
    assert found.words == " from manual_save/a with stop.env_steps = 400 (was none)"
    with pytest.raises(UsageError, match="has made 300 steps already"):
        stopped.resumed({"stop.env_steps": 300}, checkpoint="manual_save/a")


def test_values_are_checked_together_with_those_of_the_run(stopped: Stopped) -> None:
    stopped.make(algorithm="dqn", learner__processes=2, stop__env_steps=9_000)
    asked = {"learner.compile": "on", "stop.env_steps": 1_000, "learner.treads": 2, "stop.window": "x"}
    with pytest.raises(ConfigError) as refused:
        stopped.resumed(asked)
    assert {problem.key for problem in refused.value.problems} == set(asked)
    assert any(problem.nearest == "learner.threads" for problem in refused.value.problems)
    assert (
        stopped.resumed({"learner.compile": "on", "learner.processes": 1}).settings.learner.compiles == "on"
    )


@pytest.mark.parametrize(
    ("reached", "asked", "goes_on"),
    [
        ("env_steps", {}, False),
        ("env_steps", {"stop.mean_return": 500}, False),
        ("env_steps", {"stop.env_steps": 2 * MADE}, True),
        ("env_steps", {"stop.env_steps": None}, True),
        ("mean_return", {"learner.threads": 1}, False),
        ("mean_return", {"stop.mean_return": 90}, False),
        ("mean_return", {"stop.mean_return": 110}, True),
        ("mean_return", {"stop.window": 100}, True),
        ("stopped", {"stop.env_steps": MADE + 1}, True),
    ],
)
def test_a_run_that_has_reached_its_goal_goes_on_with_another_one(
    stopped: Stopped, reached: str, asked: dict[str, Any], goes_on: bool
) -> None:
    stopped.make(reached, stop__mean_return=100, stop__env_steps=MADE)
    if goes_on:
        assert [change.key for change in stopped.resumed(asked).changes] == list(asked)
        return
    with pytest.raises(Refused, match=rf"would end again at once\.\n.*--set stop\.{reached}=VALUE"):
        stopped.resumed(asked)


def test_what_would_be_another_experiment_or_does_not_go_with_the_run_is_refused(stopped: Stopped) -> None:
    stopped.make(stop__env_steps=2 * MADE, ppo__learning_rate=RAMP, ppo__clip=RAMP)
    with pytest.raises(UsageError, match=r"^seed, ppo\.gamma: can't change .*\n.*soulsgui run start"):
        stopped.resumed({"seed": 3, "learner.threads": 2, "ppo.gamma": 0.5})
    with pytest.raises(UsageError, match=r"redis\.port: .*\n.*soulsgui serve"):
        stopped.resumed({"redis.port": 7000})
    with pytest.raises(UsageError, match=r"ppo\.learning_rate, ppo\.clip\.\n.* new run"):
        stopped.resumed({"stop.env_steps": 3 * MADE})
    stopped.make(stop__env_steps=2 * MADE)
    with pytest.raises(UsageError, match="has made 5,000 steps already"):
        stopped.resumed({"stop.env_steps": MADE})
    with pytest.raises(UsageError, match="Leave one of them out"):
        stopped.resumed({"stop.mean_return": 5}, without_goal=True)


@pytest.mark.allow_warnings
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.timeout(10)
def test_spaces_that_are_a_pipe_are_not_known(stopped: Stopped) -> None:
    stopped.make()
    assert not spaces_are_known(stopped.run)
    write_spaces(stopped.run, {"spaces": {"observation": {}, "action": {}}})
    assert spaces_are_known(stopped.run)
    stopped.run.spaces.unlink()
    os.mkfifo(stopped.run.spaces)
    assert not spaces_are_known(stopped.run)


def test_the_runner_takes_its_own_settings_and_leaves_the_others_to_the_run() -> None:
    wished = {"redis.port": 1, "control.port": 2, "logging.level": "debug", "stop.window": 5, "seed": 2}
    base, of_run = of_the_runner(Layer("--set", wished))
    assert set(base.values) == {"redis.port", "control.port", "logging.level"}
    assert of_run == {"logging.level": "debug", "stop.window": 5, "seed": 2}


def test_nothing_that_clients_are_told_once_a_run_can_change_within_one() -> None:
    told = {key for key, info in all_settings().items() if info.to_clients and info.effect is Effect.RESUME}
    # Of the one clients take heed; the other is for inference servers, which begin anew with each attempt.
    assert told == {"logging.level", "central.inference_device"}
