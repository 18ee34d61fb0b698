"""Experiments of a library, in words, as CSV and as a figure."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.runner.api.run_commands import HANDLERS
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.experiments import compare, experiments, find
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.wire.control import COMMANDS, QueuedRun
from tests.test_cli import Terminal
from tests.test_cli import terminal as terminal

A, B = "2026-01-01_10-00-00_ppo", "2026-01-02_10-00-00_vtrace"


def put(library: Library, experiment: str, scores: list[float | None], **more: Any) -> None:
    for seed, score in enumerate(scores, start=1):
        run = library.create(f"{experiment} {seed}", 0.0)
        told: dict[str, Any] = {"env_id": "CartPole-v1", "algorithm": "ppo", "state": "finished"}
        number = library.next_number()
        told |= {"reached": "env_steps", "seed": seed, "number": number, "created": number}
        told |= {"experiment": experiment, "mean_return": score, "evaluation_return": score and -score} | more
        library.write_settings(run, Settings())
        library.write_record(run, RunRecord(id=run.run_id, **told))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    made = Library(Folders(tmp_path / "config", tmp_path / "data").runs)
    put(made, "", [1.0])
    put(made, A, [0.0, 10.0, 20.0, 1000.0, None])
    put(made, B, [30.0, 40.0])
    put(made, B, [99.0], reached="", state="running")  # it goes on
    return made


def test_statistics_are_of_the_runs_that_are_over_and_have_a_score(library: Library) -> None:
    waiting = [QueuedRun(number=1, experiment=B)]
    second, first = experiments(library.summaries(library.record(library.folders()[0])), waiting)
    assert (first.id, len(first.runs), first.scored, first.waiting) == (A, 5, 4, 0)
    assert (first.mean, first.iqm) == (257.5, 15.0)
    assert first.low is not None
    assert 0.0 <= first.low <= 15.0
    assert (second.id, [run.seed for run in second.runs], second.scored, second.waiting) == (
        B,
        [1, 2, 1],
        2,
        1,
    )
    assert second.deviation == pytest.approx(50**0.5)
    compared = compare([first, second])
    assert [(one.better, one.than, one.probability) for one in compared.improvements] == [
        (A, B, 0.25),
        (B, A, 0.75),
    ]
    assert find([second, first], "vtrace") is find([second, first], "latest") is second
    assert find([second, first], "2026-01-01") is first
    for name, said in (("2026", "matches several"), ("", "no experiment"), ("ppoo", "no experiment")):
        with pytest.raises(Refused, match=said):
            find([second, first], name)


def test_only_what_can_be_compared_is(library: Library) -> None:
    put(library, "C_lander", [1.0], env_id="LunarLander-v3")
    put(library, "D_none", [None])
    found = experiments(library.summaries(None), ())
    with pytest.raises(UsageError, match="different environments"):
        compare([find(found, "ppo"), find(found, "lander")])
    with pytest.raises(UsageError, match="D_none"):
        compare([find(found, "ppo"), find(found, "none")])


async def test_a_server_tells_of_its_experiments_one_and_several_side_by_side(library: Library) -> None:
    waiting = [QueuedRun(number=1, experiment=B)]
    manager = SimpleNamespace(active=library.record(library.folders()[0]), queued=lambda: waiting)
    runner: Any = SimpleNamespace(library=library, run_manager=manager)

    async def told(command: str, **params: Any) -> Any:
        handler: Any = HANDLERS[command]
        return await handler(runner, COMMANDS[command].params.model_validate(params))

    shown = await told("experiments.show", experiment="vtrace", score="evaluation_return")
    assert (shown.id, shown.waiting, shown.scored, shown.mean) == (B, 1, 2, -35.0)
    compared = await told("experiments.compare", experiments=["ppo", B])
    assert [one.id for one in compared.experiments] == [A, B]
    assert [one.probability for one in compared.improvements] == [0.25, 0.75]
    with pytest.raises(Refused, match="no experiment"):
        await told("experiments.compare", experiments=["ppo", "dqn"])


def test_experiments_are_read_without_a_runner_in_words_as_json_and_as_csv(
    terminal: Terminal, library: Library
) -> None:
    assert library.root == terminal.data / "runs"
    assert [line.split()[0] for line in terminal.out("experiments list").splitlines()] == ["EXPERIMENT", B, A]
    shown = terminal.out("experiments show ppo --score evaluation_return")
    assert "-1000.0" in shown
    assert f"{A}  CartPole-v1  ppo        5 runs  4       -257.5 ± 495.1  -15.0" in shown
    assert terminal.json("experiments show vtrace")["mean"] == pytest.approx(169 / 3), (
        "without a runner none goes on"
    )
    compared = terminal.out("experiments compare ppo vtrace")
    assert f"P({A} > {B}) = 0.25" in compared
    head, *rows = terminal.out("experiments compare ppo vtrace --csv").splitlines()
    assert head.startswith("experiment,env_id")
    assert [row.split(",")[-1] for row in rows] == [
        "0.0",
        "10.0",
        "20.0",
        "1000.0",
        "",
        "30.0",
        "40.0",
        "99.0",
    ]
    assert "no finished run with a curve" in terminal.err("experiments show --figure x.png", code=2)
    for words in ("ppo", "ppo ppo"):
        assert "at least two" in terminal.err(f"experiments compare {words}", code=2)
    assert json.loads(terminal.out("experiments list --json"))[1]["id"] == A
