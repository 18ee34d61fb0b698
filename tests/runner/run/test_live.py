"""Settings of a run that goes on are changed, noted and undone by commands."""

import json
from pathlib import Path

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.errors import UsageError
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.wire.messages.live import LiveChange, read_changes, undoable
from tests.runner.running import call, until

RATE = "ppo.learning_rate"


def change(**more: object) -> LiveChange:
    return LiveChange.model_validate({"time": 1.0, "attempt": 1, "update": 1, "env_steps": 1, **more})


def test_changes_are_undone_the_last_one_first(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    assert undoable(read_changes(path)) is None
    first, second, third = (change(after={RATE: rate}) for rate in (0.1, 0.2, 0.3))
    undo = change(undoes=True)
    for one in (first, second, undo):
        one.append_to(path)
    with path.open("a") as file:
        file.write('{"time": 1.0, "atte\n')  # of a disk that was full
    assert read_changes(path) == [first, second, undo]
    assert undoable([first, second]) == second
    assert undoable([first, second, undo]) == first
    assert undoable([first, second, undo, third]) == third
    assert undoable([first, second, undo, third, undo]) == first
    assert undoable([first, undo, undo]) is None


async def test_live_settings_change_at_a_known_update_stay_and_are_undone(runner: Runner) -> None:
    with pytest.raises(Refused, match="No run is active"):
        await call(runner, "config.apply", keys={RATE: 1e-4})
    await call(runner, "run.start", name="lr", overrides={"evaluation.every_updates": 20})
    run = runner.run_manager.run
    assert run is not None
    await until(lambda: runner.supervisor.running("evaluator"))
    with pytest.raises(Refused, match="no change in this run"):
        await call(runner, "config.undo")
    evaluator = runner.supervisor.pid_of("evaluator")

    told = (await call(runner, "config.apply", keys={RATE: 1e-4}))["change"]

    assert (told["before"], told["after"], told["attempt"]) == ({RATE: 1e-3}, {RATE: 1e-4}, 1)
    event = runner.events.newest(1)[0].what
    assert event == f"Run “lr” continues with {RATE} = 0.0001 (was 0.001) from update {told['update'] + 1} on"
    assert json.loads(run.config.read_text())["ppo"]["learning_rate"] == 1e-4
    values = await call(runner, "config.get")
    assert (values["running"][RATE], values["changes"]) == (1e-4, [told])
    assert runner.supervisor.pid_of("evaluator") == evaluator
    await call(runner, "config.apply", keys={"evaluation.episodes": 3, RATE: 2e-4})
    assert runner.supervisor.pid_of("evaluator") not in (None, evaluator), "it reads its settings anew"
    for rate in (1e-4, 1e-3):
        assert (await call(runner, "config.undo"))["change"]["after"][RATE] == rate
    assert runner.library.settings(run).evaluation.episodes == 10
    with pytest.raises(Refused, match="no change in this run"):
        await call(runner, "config.undo")


async def test_what_can_not_change_in_a_run_that_goes_on_is_refused_and_changes_nothing(
    runner: Runner,
) -> None:
    await call(runner, "run.start")
    run = runner.run_manager.run
    assert run is not None
    before = run.config.read_bytes()
    for keys, said in (
        ({"ppo.gamma": 0.9, RATE: 1e-4}, "ppo.gamma: can't change"),
        ({"alerts.per_hour": 3}, "Save it: soulsgui config set alerts.per_hour=VALUE"),
        ({"dqn.learning_rate": 1e-4}, "no effect while algorithm is ppo"),
        ({"evaluation.every_updates": 20}, "switched on or off"),
        ({RATE: 1e-3}, "this changes nothing"),
    ):
        with pytest.raises(UsageError, match=said):
            await call(runner, "config.apply", keys=keys)
    for keys, said in (({RATE: 7}, "less than or equal to 1"), ({"ppo.learning_rat": 1e-4}, RATE)):
        with pytest.raises(ConfigError, match=said):
            await call(runner, "config.apply", keys=keys)
    (run.root / "refuses").touch()
    with pytest.raises(Refused, match="could not configure"):
        await call(runner, "config.apply", keys={RATE: 1e-4})
    assert run.config.read_bytes() == before
    assert runner.status().allowed["config.apply"] == ""
