"""The benchmark of returns: what it trains again, and what it measures."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import returns
from benchmarks.returns import FailedError, Results, Task, Trained
from soulsgui.config.schema import Settings, flatten


def named(name: str) -> Task:
    return next(task for task in returns.TASKS if task.name == name)


def told_of(name: str) -> Settings:
    """Return the settings that a task is trained with."""
    return returns.combined(named(name), returns.assignments(named(name), 1, quick=False))


TASK = named("cartpole_dqn")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds that were trained, in any order; seed 3 fails the first time."""
    seeds: list[int] = []

    def train(task: Task, seed: int, quick: bool, folder: Path) -> Trained:
        seeds.append(seed)
        if seed == 3 and seeds.count(3) == 1:
            raise FailedError("the machine went down")
        return Trained(seed, 400.0, 490.0 + seed, 10_000, 60.0, solved=True)

    monkeypatch.setattr(returns, "train", train)
    return seeds


def _run(path: Path, *words: str) -> int:
    return returns.main(["--only", TASK.name, "--seeds", "1,2,3", "--results", str(path), *words])


def test_it_goes_on_where_it_was_interrupted(
    tmp_path: Path, trained: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "returns.jsonl"
    assert _run(path, "--side-by-side", "2") == 1
    assert "the machine went down" in capsys.readouterr().err
    assert _run(path) == 0
    assert sorted(trained) == [1, 2, 3, 3]
    assert "492.0 ± 1.0" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) == 3


def test_what_was_trained_with_other_settings_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "returns.jsonl"
    Results(path, quick=False).add(TASK, Trained(1, 400.0, None, 10_000, 60.0))
    assert Results(path, quick=False).find(TASK, 1) == Trained(1, 400.0, None, 10_000, 60.0)
    assert Results(path, quick=True).find(TASK, 1) is None
    longer = Task(TASK.name, TASK.preset, 2 * TASK.env_steps, TASK.published, TASK.source)
    assert Results(path, quick=False).find(longer, 1) is None


def test_a_task_whose_package_is_not_installed_is_left_out_with_a_remedy(
    tmp_path: Path, trained: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(returns, "TASKS", (replace(TASK, package="no_such_package"),))
    assert _run(tmp_path / "returns.jsonl") == 1
    assert "pip install --no-deps no_such_package" in capsys.readouterr().err
    assert trained == []


def test_schedules_and_module_ids_of_a_task_arrive() -> None:
    told, values = (
        flatten(told_of("minatar_breakout_ppo").model_dump(mode="json")),
        named("minatar_breakout_ppo").values,
    )
    assert {key: told[key] for key, _ in values} == dict(values)


def test_a_goal_that_evaluations_judge_ends_a_run_and_no_other() -> None:
    assert returns.assignments(TASK, 1, quick=False) == ["seed=1", f"stop.env_steps={TASK.env_steps}"]
    assert "stop.mean_return=null" in returns.assignments(named("cartpole_ppo"), 1, quick=True)


def test_the_best_model_counts_where_it_ended_the_run_and_the_newest_elsewhere() -> None:
    assert Trained(1, 400.0, 490.0, 10_000, 60.0, solved=True).value == 490.0
    assert Trained(1, 400.0, 490.0, 10_000, 60.0).value == 400.0


def test_a_task_without_a_preset_takes_what_is_shipped_with_its_agent() -> None:
    first, second = told_of("default_cartpole_r2d2"), told_of("default_hopper_sac")
    assert (first.network.recurrent, first.stop.mean_return, first.stop.env_steps) == ("lstm", 490, 60_000)
    assert (second.network.activation, second.stop.mean_return) == ("relu", None)
    td3, tqc = told_of("default_pendulum_td3"), told_of("default_hopper_tqc")
    assert (td3.algorithm, td3.agent, td3.sac.batch_size) == ("sac", "td3", 100)
    assert (tqc.agent, tqc.network.value_hidden_sizes) == ("tqc", (512, 512, 512))
