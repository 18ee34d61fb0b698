"""Evaluations on request: which weights are played by which settings, and who is asked before."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError, NoCheckpointError, UsageError
from soulsgui.runner.api.library_commands import HANDLERS
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.agreed import RunNotAgreedError
from soulsgui.runner.run.evaluations import evaluate
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.scores import kept_evaluations
from soulsgui.wire.control import CheckpointEvaluateParams, CheckpointExportParams, Evaluated, Picture
from soulsgui.wire.manifest import read_manifest, verify
from tests.runner.fake_program import save
from tests.runner.running import call

REPORT: dict[str, Any] = {
    "run_id": "r", "checkpoint": "c", "model_id": 3, "updates": 1, "env_steps": 1, "algorithm": "ppo",
    "agent": "", "env_id": "CartPole-v1", "episodes": 1, "seed": 0, "greedy": True, "mean_return": 1.0,
    "std_return": 0.0, "min_return": 1.0, "max_return": 1.0, "mean_length": 1.0, "returns": [1.0],
    "lengths": [1], "seconds": 0.1,
}  # fmt: skip


class Job:
    """A job whose process tells what it was asked for."""

    id = "job"

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.asked: dict[str, Any] = {}
        self.found: Any = None
        self.was_there = False
        self.answers: list[dict[str, Any]] = []

    def tell(self, progress: str) -> None:
        pass

    def new_file(self, name: str) -> Path:
        return Path(name)

    async def in_thread(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        return work(*args, **kwargs)

    async def in_process(self, argv: list[str], request: dict[str, Any], reply: Any) -> dict[str, Any]:
        self.asked, self.was_there = request, (Path(request["path"]) / "manifest.json").exists()
        picture = Picture(episode=0, step=0, return_so_far=0.0, jpeg="AAAA").model_dump()
        self.answers = [reply({"doing": "plays"}), reply({"picture": picture})]
        return REPORT


async def asked(runner: Runner, **params: Any) -> Job:
    job = Job(runner)
    told: Any = job
    job.found = await evaluate(runner, CheckpointEvaluateParams(**params), told)
    assert job.found.model_copy(update={"checkpoint": "c"}) == Evaluated(**REPORT)
    return job


def a_run(runner: Runner, **settings: Any) -> RunFolder:
    """A run of the library that nobody trains."""
    run = runner.library.create("older", 1_000_000.0)
    runner.library.write_record(run, RunRecord(id=run.run_id, name="older", created=1.0, state="stopped"))
    values = {"env.id": "CartPole-v1"} | settings
    runner.library.write_settings(run, combine([defaults_layer(), Layer("test", values)]))
    save(run.checkpoint, run, "current", 100)
    return run


async def test_weights_that_are_trained_are_written_aside_until_they_were_played(
    runner: Runner,
) -> None:
    begun = await call(runner, "run.start")
    run = RunFolder(Path(begun["run_dir"]))
    job = await asked(runner, checkpoint="newest", episodes=3, frames=True)
    assert (Path(job.asked["path"]).parent, job.was_there) == (run.watched, True)
    assert not Path(job.asked["path"]).exists()
    assert (job.asked["episodes"], job.asked["frames"], job.asked["video"]) == (3, True, "")
    assert job.answers == [{"pace": None}] * 2
    await asked(runner, model_id=4)
    # What is played for those who watch is no evaluation to look up again.
    told = [event for event in runner.events.since(0) if "evaluated" in event.what]
    what = "The weights of update 1 were evaluated over 1 episode: mean return 1.0"
    assert [(event.what, event.run_id) for event in told] == [(what, run.run_id)]
    await call(runner, "run.stop")
    with pytest.raises(Refused, match="is not being trained"):
        await asked(runner, model_id=4)


async def test_one_way_of_naming_a_checkpoint_serves_every_command(runner: Runner) -> None:
    run = a_run(runner)
    save(run.best_model, run, "best", 50)
    for name, path in {
        "": run.checkpoint,
        "newest": run.checkpoint,
        "best": run.best_model,
        "older/best": run.best_model,
        f"{run.run_id}/checkpoint": run.checkpoint,
        "older": run.checkpoint,
    }.items():
        assert (await asked(runner, checkpoint=name)).found.checkpoint == str(path), name
    edited = await call(runner, "checkpoint.edit", path="older/newest", note="good")
    assert edited["checkpoint"]["id"] == "checkpoint"
    assert (await call(runner, "checkpoint.edit", path="best", note=""))["checkpoint"]["id"] == "best_model"
    with pytest.raises(NoCheckpointError):
        await call(runner, "checkpoint.trash", path="older")  # a run is none
    await call(runner, "checkpoint.trash", path="best")
    with pytest.raises(UsageError, match="older is a run"):
        await call(runner, "checkpoint.purge", path="older")
    restored = await call(runner, "checkpoint.restore", path="older/best")
    assert restored["checkpoint"]["id"] == "best_model"


async def test_checkpoints_are_played_by_their_settings_and_what_is_set_above_them(runner: Runner) -> None:
    run = a_run(runner)
    job = await asked(runner, overrides={"env.kwargs": {"sutton_barto_reward": True}}, video="gif", seed=7)
    assert job.found.checkpoint == str(run.checkpoint)
    assert job.asked["settings"]["env"]["kwargs"] == {"sutton_barto_reward": True}
    assert (job.asked["seed"], job.asked["video"]) == (7, "model-0.gif")
    assert kept_evaluations(run) == [], "played by other settings it says nothing of the checkpoint"
    await asked(runner)
    told = await call(runner, "runs.show")
    assert [(one["checkpoint"], one["returns"]) for one in told["evaluations"]] == [("checkpoint", [1.0])]
    with pytest.raises(NoCheckpointError):
        await asked(runner, checkpoint="best")
    (run.checkpoint / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="none of its checkpoints is valid"):
        await asked(runner)


async def test_what_is_played_or_exported_stays_what_it_was_while_newer_ones_replace_it(
    runner: Runner,
) -> None:
    run = a_run(runner)
    save(run.checkpoint, run, "current", 100, model_id=1)
    held = []

    class SlowJob(Job):
        """While its process begins the trainer saves twice."""

        async def in_process(self, argv: list[str], request: dict[str, Any], reply: Any = None) -> Any:
            for model_id in (2, 3):
                save(run.checkpoint, run, "current", 200, model_id=model_id)
            path = Path(request.get("path") or request["checkpoint"])
            held.append(read_manifest(path))
            verify(path, held[-1])
            return REPORT | {"checked": "read again"}

    job: Any = SlowJob(runner)
    await evaluate(runner, CheckpointEvaluateParams(checkpoint="checkpoint"), job)
    export: Any = HANDLERS["checkpoint.export"]
    exported = await export(runner, CheckpointExportParams(path="newest", format="safetensors"), job)
    assert exported.name == f"{run.run_id}_3.safetensors"
    assert [one.model_id for one in held] == [1, 3]
    assert not list(run.watched.iterdir())


async def test_clients_are_waited_for_no_longer_than_the_trainer_that_was_asked(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    runner: Any = Mock(**{"library.find.return_value": run, "run_manager.run": run})
    runner.run_manager.node.return_value.phase = "frozen"
    runner.run_manager.record.attempt = 2
    runner.bus.ask = AsyncMock(return_value=Mock(result={"attempt": 1}))
    with pytest.raises(Refused, match="was restarted before clients had played"):
        await asked(runner, checkpoint="newest")


async def test_what_comes_from_elsewhere_is_played_once_somebody_agrees(runner: Runner) -> None:
    a_run(runner, **{"env.id": "tests.environments.toys:ToysCounter-v0"})
    with pytest.raises(RunNotAgreedError) as refused:
        await asked(runner)
    with pytest.raises(RunNotAgreedError):
        await asked(runner, trust="another digest")
    assert refused.value.asks is not None
    assert (await asked(runner, trust=refused.value.asks.digest)).was_there
    assert (await asked(runner)).was_there  # it is remembered
