"""Runs wait for their turn, and are begun in it, also by the next runner."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from soulsgui.config.layers import as_settings
from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError, UsageError
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run import manager
from soulsgui.runner.run.queue import RunQueue
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.start import Beginning
from soulsgui.runner.status_text import queue_rows
from soulsgui.wire.api_client import ApiClient
from soulsgui.wire.control import COMMANDS, RunStartParams
from tests.runner.children import until_now
from tests.runner.fake_program import LOADING
from tests.runner.running import SHORT, call, new_runner, opened, until
from tests.runner.test_headless import Serving, crash, ended, kill_all
from tests.runner.test_headless import serving as serving


@pytest.fixture
def queue(tmp_path: Path) -> RunQueue:
    return RunQueue(tmp_path / "queue.json")


def put(queue: RunQueue, name: str, seeds: int = 1, seed: int = 1) -> str:
    begins = Beginning(Settings(seed=seed), summary="as the defaults")
    entries = queue.entries_for(RunStartParams(name=name, seeds=seeds), begins, 0.0)
    queue.add(entries)
    return entries[0].experiment


def names(queue: RunQueue, active: str = "") -> list[str]:
    return [one.name for one in queue.waiting(active)]


def test_a_queue_keeps_its_order_and_what_each_run_begins_with_in_a_file(
    queue: RunQueue, tmp_path: Path
) -> None:
    put(queue, "a")
    first = put(queue, "b", seeds=3, seed=7)
    second = put(queue, "b", seeds=2)
    assert first.endswith("_b")
    assert second == f"{first}-2", "two experiments of one second are two"
    queue.move(5, 1)
    queue.began(1, "run-a")
    read = RunQueue(tmp_path / "queue.json")
    assert names(read) == ["a", "b seed 1", "b seed 7", "b seed 8", "b seed 9", "b seed 2"], (
        "what began goes on first"
    )
    assert names(read, "run-a") == names(read)[1:]
    assert [one.settings.seed for one in read.waiting("run-a")] == [1, 7, 8, 9, 2]
    head, *lines = queue_rows([one.model_dump() for one in read.waiting()]).split("\n")
    assert head.endswith("SETTINGS")
    assert all(line.endswith("as the defaults") for line in lines)
    read.move(6, 1)
    assert names(read)[:2] == ["a", "b seed 2"], "none goes before the one that goes on"
    assert [one.number for one in read.remove(first)] == [2, 3, 4]
    with pytest.raises(Refused, match="There is no run 2 in the queue"):
        read.remove("2")
    with pytest.raises(Refused, match="There is no run 1 in the queue"):
        read.remove("1", active="run-a")
    with pytest.raises(Refused, match="There is no run 1 in the queue"):
        read.move(1, 2, active="run-a")
    read.over("run-a")
    read.remove("all")
    assert read.waiting() == []
    put(read, "c")
    assert read.waiting()[0].number == 7, "a number is never given twice"


def test_a_queue_is_bounded_and_its_seeds_are(queue: RunQueue) -> None:
    put(queue, "a", seeds=100)
    put(queue, "b", seeds=100)
    with pytest.raises(Refused, match="200 runs at most"):
        put(queue, "c")
    with pytest.raises(UsageError, match="seed"):
        put(queue, "d", seeds=2, seed=2**31 - 1)


def test_a_queue_takes_no_more_than_can_be_read_again(queue: RunQueue, tmp_path: Path) -> None:
    put(queue, "a")
    large = as_settings({"env.kwargs": {"text": "n" * 130_000}})
    with pytest.raises(Refused, match="at most"):
        queue.add(queue.entries_for(RunStartParams(seeds=100), Beginning(large), 0.0))
    assert names(queue) == names(RunQueue(tmp_path / "queue.json")) == ["a"]


@pytest.mark.parametrize("damage", ["{", '{"entries": [{"number": "x"}]}'])
async def test_a_damaged_queue_is_told_and_begun_anew(
    folders: Folders, fake_services: None, damage: str
) -> None:
    folders.server.mkdir(parents=True)
    (folders.server / "run_queue.json").write_text(damage)
    async with opened(new_runner(folders)) as runner:
        assert "The queue of runs is lost" in runner.events.since(0)[0].what
        assert runner.status().queue == []
    (kept,) = folders.server.glob("run_queue.damaged-*.json")
    assert kept.read_text() == damage


@pytest.mark.parametrize(
    ("command", "params"),
    [
        ("run.queue.remove", {"which": ""}),
        ("run.queue.remove", {"which": "1" * 5000}),
        ("run.queue.move", {"number": 1, "place": 10**30}),
    ],
)
def test_which_run_of_the_queue_is_told_within_bounds(command: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        COMMANDS[command].params.model_validate(params)


async def test_each_run_of_the_queue_begins_when_the_one_before_has_ended(runner: Runner) -> None:
    records: list[RunRecord] = []

    def over() -> bool:
        records[:] = [runner.library.record(run) for run in reversed(runner.library.folders())]
        return len(records) == 4 and all(one.reached for one in records)

    first = await call(runner, "run.start", name="first")
    assert (first["queued"], first["experiment"]) == ([], "")
    waiting = await call(
        runner, "run.start", name="two", seeds=2, overrides=SHORT | {"seed": 5}, if_active="queue"
    )
    assert (waiting["run_id"], waiting["queued"]) == ("", [1, 2])
    await call(runner, "run.start", name="last", overrides=SHORT, if_active="queue")
    moved = await call(runner, "run.queue.move", number=3, place=1)
    assert [one["name"] for one in moved["queue"]] == ["last", "two seed 5", "two seed 6"]
    assert [one.number for one in runner.status().queue] == [3, 1, 2]
    await call(runner, "run.stop")  # the next begins however a run has ended
    await until(over)
    assert [(one.name, one.seed) for one in records] == [
        ("first", 1),
        ("last", 1),
        ("two seed 5", 5),
        ("two seed 6", 6),
    ]
    assert [one.experiment for one in records] == ["", "", waiting["experiment"], waiting["experiment"]]
    assert [one.reached for one in records] == ["stopped", *["env_steps"] * 3]
    assert (await call(runner, "run.queue.list"))["queue"] == []


@pytest.mark.allow_warnings
async def test_a_run_of_the_queue_that_something_else_hinders_is_tried_again(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "_QUEUE_AGAIN_S", 0.1)
    hindered = iter([False, True, True])

    async def probe(_settings: Settings, _told: object) -> dict[str, Any]:
        if next(hindered, False):
            raise OSError("no space left on device")
        return {"spaces": {"observation": {}, "action": {}}}

    async with opened(new_runner(folders, probe=probe)) as runner:
        await call(runner, "run.start")
        await call(runner, "run.start", seeds=2, overrides=SHORT, if_active="queue")
        await call(runner, "run.stop")
        await until(
            lambda: (
                [one.reached for one in map(runner.library.record, runner.library.folders())].count(
                    "env_steps"
                )
                == 2
            )
        )


async def test_an_experiment_that_can_not_begin_is_told_once(folders: Folders, fake_services: None) -> None:
    async def broken(settings: Settings, _told: object) -> dict[str, Any]:
        if settings.env.kwargs:
            raise EnvironmentCheckError("It raised in reset.")
        return {"spaces": {"observation": {}, "action": {}}}

    async with opened(new_runner(folders, probe=broken)) as runner:
        await call(runner, "run.start")
        wrong = {"overrides": {"env.kwargs": {"a": 1}}, "if_active": "queue"}
        await call(runner, "run.start", seeds=3, **wrong)
        await call(runner, "run.start", name="good", overrides=SHORT, if_active="queue")
        await call(runner, "run.stop")
        await until(lambda: runner.status().run.name == "good" and runner.status().run.state == "finished")
        assert [one.cause for one in runner.events.since(0) if one.level == "error"] == [
            "It raised in reset."
        ]


@pytest.mark.parametrize("seeds", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_an_experiment_goes_on_through_kills_of_the_runner_and_of_everything(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    loads = tmp_path / "loads"
    loads.touch()
    monkeypatch.setenv(LOADING, str(loads))

    def begun(runner: subprocess.Popen[str]) -> tuple[ApiClient, dict[str, int]]:
        api = serving.api(runner)
        until_now(lambda: len(api.status()["services"]) == 3)
        until_now(lambda: all(one["pid"] for one in api.status()["services"]))
        return api, {one["name"]: one["pid"] for one in api.status()["services"]}

    words = ("--name", "cart", "--seeds", str(seeds), "--until-done", "--json", "--set", "stop.env_steps=200")
    first = serving.start(*words)
    api, pids = begun(first)
    run = api.status()["run"]
    assert [one["seed"] for one in api.status()["queue"]] == list(range(2, seeds + 1))
    crash(first)

    second = serving.start(*words)
    api, again = begun(second)
    assert (again, len(api.status()["queue"])) == (pids, seeds - 1)
    crash(second)
    kill_all(again.values())
    loads.unlink()

    code, output = ended(serving.start(*words))

    assert code == 0, serving.stderr
    runs = json.loads(output)["runs"]
    assert [one["seed"] for one in runs] == list(range(1, seeds + 1))
    assert runs[0]["run_id"] == run["id"], "what was interrupted was gone on with"
    assert {one["experiment"] for one in runs} == {run["experiment"]}
    assert len(list(serving.runs.iterdir())) == seeds


def test_a_server_that_is_shut_down_goes_on_with_its_queue_when_it_is_back(serving: Serving) -> None:
    first = serving.start("--seeds", "2", "--set", "stop.env_steps=1000000")
    api, _ = serving.running(first)
    run = api.status()["run"]["id"]
    api.command("server.shutdown")
    assert ended(first)[0] == 0
    api, _ = serving.running(serving.start("--idle"))
    assert api.status()["run"]["id"] == run
    assert [one["seed"] for one in api.status()["queue"]] == [2]
    assert api.command("run.queue.remove", {"which": "all"}) == {"queue": []}
