"""Sweeps: trials are runs one after another, told to Optuna, and gone on with by the next runner."""

import asyncio
import errno
import itertools
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import psutil
import pytest

pytest.importorskip("optuna")

from soulsgui.config.errors import ConfigError
from soulsgui.config.parsing import Layer, parse_assignments
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run import study as study_module
from soulsgui.runner.run import sweep
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.queue import RunQueue
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.search_space import Dimension
from soulsgui.runner.run.study import Study, names
from soulsgui.runner.run.workers import ActiveSweep, Workers
from soulsgui.system import usable_cores
from soulsgui.wire.control import SweepStartParams
from tests.faults.small_disk import fill, small_disk
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until_now
from tests.runner.running import ONE_CLIENT, SHORT, call, new_runner, opened, until
from tests.runner.test_app import say
from tests.runner.test_headless import Serving, crash, ended
from tests.runner.test_headless import serving as serving

SPACE = {"ppo.learning_rate": "1e-4..1e-2:log", "ppo.epochs": "[5, 10]"}


def study_of(path: Path, **asked: Any) -> Study:
    space = {"ppo.learning_rate": Dimension(1e-4, 1e-2, log=True)}
    params = SweepStartParams.model_validate({"space": {"ppo.learning_rate": "1e-4..1e-2:log"}} | asked)
    config = {"seed": 1, "env": {"id": "CartPole-v1"}, "algorithm": "ppo"}
    return Study.create(path, "one", params, config, space)


def test_trials_are_told_pruned_and_gone_on_with_from_the_file(tmp_path: Path) -> None:
    odd = "a b#c%20ü{d}" if sys.platform == "win32" else "a b#c%20ü{d}?e"  # what means something in a URL
    path = tmp_path / odd / "sweeps.sqlite3"
    assert names(path) == []
    study = study_of(path, trials=8, pruner="median")
    for score in range(5):
        trial = study.next_trial()
        assert trial is not None
        assert not trial.report(10, float(score)), "the first are not pruned"
        trial.tell(float(score), pruned=False)
    worse = study.next_trial()
    assert worse is not None
    values = worse.values
    again = Study(path, "one").next_trial()  # by the next runner
    assert again is not None
    assert (again.number, again.values, again.queued) == (5, values, False)
    again.note_queued()
    again.note_run("run-5")
    assert again.report(10, -1.0)
    again.tell(None, pruned=True)
    diverged = study.next_trial()
    assert diverged is not None
    diverged.tell(None, pruned=True)
    assert study.failed_in_a_row() == 0, "what diverges at once is given up, and no failure"
    nothing = study.next_trial()
    assert nothing is not None
    nothing.tell(float("nan"), pruned=False)
    assert study.failed_in_a_row() == 1
    assert study.next_trial() is None
    status = study.status()
    assert [one.state for one in status.trials] == ["complete"] * 5 + ["pruned", "pruned", "failed"]
    assert (status.trials[5].score, status.trials[5].run_id) == (-1.0, "run-5")
    assert status.best is not None
    assert (status.best.number, status.best.score) == (4, 4.0)
    assert status.importance == {"ppo.learning_rate": pytest.approx(1.0)}
    study.end("finished")
    assert (Study(path, "one").state, names(path)) == ("finished", ["one"])


def test_the_trial_of_a_sweep_that_is_stopped_is_given_up(tmp_path: Path) -> None:
    study = study_of(tmp_path / "sweeps", trials=8)
    for score in (1.0, 2.0):
        trial = study.next_trial()
        assert trial is not None
        if score == 2.0:
            trial.report(10, 9.0)
            break
        trial.tell(score, pruned=False)
    study.end("stopped")
    status = Study(tmp_path / "sweeps", "one").status()
    assert [one.state for one in status.trials] == ["complete", "pruned"]
    assert status.best is not None
    assert status.best.number == 0, "what was given up is no result"
    early = study_of(tmp_path / "early")
    assert early.next_trial() is not None
    early.end("stopped")
    assert [one.state for one in early.status().trials] == ["pruned"], "before it told anything, too"


@pytest.mark.parametrize("whole_bytes", [0, 4096])
def test_a_damaged_file_of_sweeps_is_set_aside(tmp_path: Path, whole_bytes: int) -> None:
    study_of(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    path = tmp_path / "sweeps"
    path.write_bytes(content[:whole_bytes] + b"\xff" * (len(content) - whole_bytes))
    with pytest.raises(SoulsGuiError, match=r"sweeps is damaged: .*; it is kept as sweeps\.damaged"):
        names(path)
    assert study_of(path).state == "running", "the next sweep begins"


def test_sweeps_that_begin_within_a_second_have_names_of_their_own(tmp_path: Path) -> None:
    made = [study_of(tmp_path / "sweeps").name for _ in range(3)]
    assert made == ["one", "one-2", "one-3"] == names(tmp_path / "sweeps")[::-1]


def test_a_grid_makes_each_combination_once(tmp_path: Path) -> None:
    asked = SweepStartParams(space={"ppo.epochs": [5, 10]}, sampler="grid")
    space = {"ppo.epochs": Dimension(choices=("5", "10")), "ppo.shuffle": Dimension(choices=('"none"',))}
    config = {"seed": 1, "env": {"id": "CartPole-v1"}, "algorithm": "ppo"}
    study = Study.create(tmp_path / "sweeps", "one", asked, config, space)
    made = []
    while (trial := study.next_trial()) is not None:
        made.append(trial.values)
        trial.tell(1.0, pruned=False)
    assert sorted(one["ppo.epochs"] for one in made) == [5, 10]
    with pytest.raises(UsageError, match="needs choices"):
        study_of(tmp_path / "other", sampler="grid")


def test_each_worker_has_a_trial_of_its_own_and_none_is_drawn_twice(tmp_path: Path) -> None:
    study = study_of(tmp_path / "sweeps", trials=3)
    first, second = study.next_trial(), study.next_trial(2)
    assert first is not None
    assert second is not None
    elsewhere = Study(tmp_path / "sweeps", "one")  # in the worker
    found = elsewhere.trial_of(2)
    assert found is not None
    assert (found.number, found.values) == (second.number, second.values)
    assert elsewhere.trial_of(3) is None
    found.tell(None, pruned=False)
    assert study.failed_in_a_row() == 1, "one that goes on says nothing"
    third = study.next_trial(2)
    assert third is not None
    assert (third.number, study.next_trial(3)) == (2, None)
    again = study.next_trial()
    assert again is not None
    assert again.number == first.number


def test_a_trial_of_which_not_every_value_was_drawn_is_completed(tmp_path: Path) -> None:
    study = study_of(tmp_path / "sweeps", trials=1)
    study._study.ask()  # the runner was killed, or the disk full
    again = Study(tmp_path / "sweeps", "one")
    trial, known = again.next_trial(), again.next_trial()
    assert trial is not None
    assert known is not None
    assert trial.values.keys() == study.space.keys()
    assert trial.values == known.values


async def test_a_sweep_is_refused_before_anything_begins(runner: Runner) -> None:
    for params, error, said in (
        ({"space": SPACE, "overrides": SHORT, "parallel": 64}, UsageError, "the server may use"),
        (
            {"space": SPACE, "overrides": SHORT, "parallel": 2},
            UsageError,
            "clients.local is 0",
        ),
        (  # a worker's trial with these would wait without an end
            {"space": SPACE | {"clients.local": "[0, 1]"}, "overrides": SHORT, "parallel": 2},
            UsageError,
            "clients.local is 0",
        ),
        (
            {
                "space": {"ppo.n_clients": "[1, 2]"},
                "overrides": SHORT | ONE_CLIENT,
                "parallel": 2,
            },
            UsageError,
            "clients.local is 1, and ppo.n_clients 2",
        ),
        ({"space": SPACE}, UsageError, "stop.env_steps has to be set"),
        (
            {"space": {"ppo.learning_rate": "0..7"}, "overrides": SHORT},
            ConfigError,
            "less than or equal to 1",
        ),
        ({"space": SPACE, "overrides": SHORT, "sampler": "grid"}, UsageError, "ppo.learning_rate"),
    ):
        with pytest.raises(error, match=said):
            await call(runner, "sweep.start", **params)
    with pytest.raises(Refused, match="No sweep is running"):
        await call(runner, "sweep.stop")
    with pytest.raises(Refused, match="There is no sweep yet") as none:
        await call(runner, "sweep.status")
    assert none.value.remedy == "Start one: soulsgui sweep start"


async def test_more_trials_at_a_time_than_clients_leave_cores_are_warned_of(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_worker(*_args: Any) -> None:
        return

    monkeypatch.setattr(runner.sweeps.workers, "start", no_worker)
    await call(runner, "run.start", overrides=ONE_CLIENT)
    await until(lambda: any(one.kind == "client" and one.pid for one in runner.status().services))
    for cores, said in (
        (2, "2 trials at a time on 2 cores, on which 1 client already plays"),
        (3, ""),
    ):
        monkeypatch.setattr(sweep, "usable_cores", lambda cores=cores: cores)
        overrides = SHORT | ONE_CLIENT
        told = await call(runner, "sweep.start", space=SPACE, overrides=overrides, parallel=2)
        assert told["crowded"] == said
        *_, started = (one for one in runner.events.since(0) if " was started: " in one.what)
        assert (started.level, started.cause) == ("warning" if said else "info", said)
        await call(runner, "sweep.stop")


async def test_a_sweep_that_could_not_be_noted_ended_or_read_holds_up_no_other(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "atomic_write", full)
        with pytest.raises(OSError, match="full"):
            await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    with pytest.raises(Refused, match="No sweep is running"):
        await call(runner, "sweep.stop")
    active, path = runner.folders.server / "active_sweep.json", runner.folders.data / "sweeps.sqlite3"
    study = study_of(path)
    active.write_text('{"sweep": "one"}')
    await until(lambda: runner.status().queue or runner.run_manager.record.sweep)
    with monkeypatch.context() as patch:
        patch.setattr(Study, "end", full)
        with pytest.raises(OSError, match="full"):
            await call(runner, "sweep.stop")
    assert runner.sweeps.goes_on, "it can be stopped again"
    await call(runner, "sweep.stop")
    active.write_text('{"sweep": "one"}')  # as if the runner had been killed before it removed that
    await until(lambda: not runner.sweeps.goes_on)
    assert study.state == "stopped"
    path.write_bytes(b"\xff" * 4096)
    active.write_text('{"sweep": "one"}')
    await until(lambda: not runner.sweeps.goes_on)
    told = [one for one in runner.events.since(0) if one.what == "The sweep can't be continued"]
    assert "is damaged" in told[0].cause
    assert (await call(runner, "sweep.start", space=SPACE, overrides=SHORT))["state"] == "running"


@pytest.mark.allow_warnings
async def test_a_sweep_ends_whatever_stands_in_the_place_of_its_files(runner: Runner) -> None:
    active, path = runner.folders.server / "active_sweep.json", runner.folders.data / "sweeps.sqlite3"
    async with runner.sweeps._working:  # no turn comes before the command
        active.mkdir()
        stopping = asyncio.create_task(call(runner, "sweep.stop"))
        await asyncio.sleep(0)
    with pytest.raises(Refused, match="was stopped: it could not be continued"):
        await stopping
    assert active.with_name("active_sweep.json.damaged").is_dir()
    path.mkdir()
    active.write_text('{"sweep": "one"}')
    await until(lambda: not runner.sweeps.goes_on)
    assert path.with_name("sweeps.sqlite3.damaged").is_dir()
    causes = [one.cause for one in runner.events.since(0) if one.what == "The sweep can't be continued"]
    assert "active_sweep.json" in causes[0]
    assert "sweeps.sqlite3 can't be used" in causes[1]
    assert (await call(runner, "sweep.start", space=SPACE, overrides=SHORT))["state"] == "running"


@pytest.mark.allow_warnings
async def test_a_sweep_whose_turns_fail_is_given_up(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_study: Study) -> None:
        raise ZeroDivisionError("no such step")

    monkeypatch.setattr(Study, "next_trial", fail)
    await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    await until(lambda: not runner.sweeps.goes_on)
    assert runner.events.newest(1)[0].cause == "no such step"
    assert (await call(runner, "sweep.status"))["state"] == "failed"


@pytest.mark.allow_warnings
async def test_a_sweep_waits_while_another_process_keeps_its_file_locked(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[BaseException] = []
    turn = runner.sweeps.turn

    async def watched() -> None:
        try:
            await turn()
        except Exception as error:
            failed.append(error)
            raise

    monkeypatch.setattr(study_module, "_LOCKED_LIMIT_S", 0.05)
    await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    with closing(sqlite3.connect(runner.folders.data / "sweeps.sqlite3", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        while len(failed) < 5 and runner.sweeps.goes_on:
            with suppress(Exception):
                await watched()
        db.execute("ROLLBACK")
    assert runner.sweeps.goes_on
    assert (await call(runner, "sweep.stop"))["state"] == "stopped"


async def test_a_sweep_that_no_runner_goes_on_with_is_not_told_to_run(runner: Runner) -> None:
    study_of(runner.folders.data / "sweeps.sqlite3")  # the runner was killed before it noted that it goes on
    assert (await call(runner, "sweep.status"))["state"] == "failed"
    await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    assert (await call(runner, "sweep.status"))["state"] == "running"
    assert (await call(runner, "sweep.status", sweep="one"))["state"] == "failed"
    await call(runner, "sweep.stop")


async def test_workers_have_the_server_program_of_ours(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = AsyncMock()
    monkeypatch.setattr(runner.supervisor, "start", started)
    ours = Layer("--set", {"redis.binary": "/opt/a b/server", "redis.port": 7000})
    await Workers(runner.sweeps._context, runner.run_manager, ours).start("one", 2)
    words = started.await_args.args[0].argv
    told = [word for before, word in itertools.pairwise(words) if before == "--set"]
    values = parse_assignments(told).values
    assert values["redis.binary"] == "/opt/a b/server"
    assert values["redis.port"] == 0


@pytest.mark.allow_warnings
async def test_a_worker_is_told_again_of_a_sweep_and_does_not_give_it_up(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = AsyncMock()
    monkeypatch.setattr(runner.supervisor, "start", started)
    told = runner.folders.workers / "2" / "server" / "active_sweep.json"
    await runner.sweeps.workers.start("one", 2)
    told.unlink()
    await runner.sweeps.workers.start("one", 2)
    known = ActiveSweep(sweep="one", worker=2, home=str(runner.folders.data))
    assert ActiveSweep.read(told.read_bytes()) == known
    shutil.copy(told, runner.folders.server / told.name)  # from here on this is the worker
    with pytest.raises(SoulsGuiError, match="does not hold the sweep one"):
        await runner.sweeps.turn()
    study = study_of(runner.folders.data / "sweeps.sqlite3")
    study.next_trial(2)
    await until(lambda: runner.run_manager.record.name == "trial 0")
    study.end("stopped")


async def test_a_sweep_that_finds_no_room_says_so(runner: Runner, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        (runner.folders.data / "sweeps.sqlite3").symlink_to(disk / "sweeps.sqlite3")
        filler = fill(disk)
        with pytest.raises(OSError, match="No space left"):
            await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
        assert not runner.sweeps.goes_on
        filler.unlink()
        assert (await call(runner, "sweep.start", space=SPACE, overrides=SHORT))["state"] == "running"
        await call(runner, "sweep.stop")


async def test_runs_of_workers_join_a_library_on_another_disk(runner: Runner, tmp_path: Path) -> None:
    theirs = Library(runner.folders.workers / "2" / "runs")
    with small_disk(runner.folders.runs, "1m") as disk:
        run = theirs.create("trial 1", 0.0)
        say(run, "verdict", best_score=1.0, mean_return=1.0)
        theirs.write_record(run, RunRecord(id=run.run_id, name="trial 1", state="finished", created=1.0))
        shutil.copytree(run.root, tmp_path / run.run_id)
        await runner.sweeps.workers.take_runs({"trial 2"})
        shutil.copytree(
            tmp_path / run.run_id, run.root
        )  # as if the runner had been killed before this was gone
        await runner.sweeps.workers.take_runs({"trial 2"})
        assert not theirs.folders()
        assert [one.name for one in disk.iterdir()] == [run.run_id]
        assert (disk / run.run_id / "verdict.json").exists()
        listed = (await call(runner, "runs.list"))["runs"]
        assert [(one["name"], one["state"]) for one in listed] == [("trial 1", "finished")]


async def test_a_file_of_sweeps_that_may_not_be_made_is_told_as_other_files_are(runner: Runner) -> None:
    nowhere = runner.folders.data / "nowhere" / "sweeps"
    (runner.folders.data / "sweeps.sqlite3").symlink_to(nowhere)
    with pytest.raises(FileNotFoundError, match=re.escape(str(nowhere))):
        await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    assert not runner.sweeps.goes_on


async def test_a_disk_that_takes_no_file_of_sweeps_is_told(runner: Runner, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        (runner.folders.data / "sweeps.sqlite3").symlink_to(disk / "sweeps")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(OSError, match="Read-only file system"):
            await call(runner, "sweep.start", space=SPACE, overrides=SHORT)


def test_no_score_is_less_than_zero_but_one_below_it(tmp_path: Path) -> None:
    study = study_of(tmp_path / "sweeps")
    for score in (-1.0, 0.0, -2.0):
        trial = study.next_trial()
        assert trial is not None
        trial.tell(score, pruned=False)
    best = study.status().best
    assert best is not None
    assert best.score == 0.0


async def test_what_a_sweep_was_started_with_is_told_without_secrets(runner: Runner) -> None:
    secret = {"alerts.webhook": "https://127.0.0.1/secret"}
    begun = await call(runner, "sweep.start", space=SPACE, preset="cartpole_ppo", overrides=SHORT | secret)
    assert (begun["preset"], begun["overrides"]) == ("cartpole_ppo", SHORT)


async def test_a_sweep_makes_its_trials_one_after_another_and_gives_up_what_diverges(runner: Runner) -> None:
    begun = await call(runner, "sweep.start", name="lr", space=SPACE, trials=3, overrides=SHORT)
    assert (begun["state"], begun["trials"]) == ("running", [])
    with pytest.raises(Refused, match="A sweep is running"):
        await call(runner, "sweep.start", space=SPACE, overrides=SHORT)

    def scored() -> bool:
        """Let telemetry say what each run comes to; the second one diverges."""
        run = runner.run_manager.run
        if run is not None and not (run.root / "verdict.json").exists():
            number = int(runner.status().run.name.split()[-1])
            say(run, "verdict", best_score=float(number), mean_return=float(number))
            if number == 1:
                say(run, stop_reached=False, diverged="The training diverged at update 3")
        return not runner.sweeps.goes_on

    await until(scored)
    status = await call(runner, "sweep.status", sweep="lr")
    assert status["state"] == "finished"
    assert [one["state"] for one in status["trials"]] == ["complete", "pruned", "complete"]
    assert status["best"]["number"] == 2
    records = [runner.library.record(run) for run in runner.library.folders()]
    assert {one.sweep for one in records} == {status["id"]}
    for trial in status["trials"]:
        config = json.loads((runner.library.root / trial["run_id"] / "config.json").read_text())
        assert config["ppo"]["learning_rate"] == trial["values"]["ppo.learning_rate"]
        assert config["ppo"]["epochs"] == trial["values"]["ppo.epochs"]
    pruned = [one.what for one in runner.events.since(0) if "pruned" in one.what]
    assert pruned == ["Run “trial 1” was pruned: it diverged"]
    assert (await call(runner, "experiments.list"))["experiments"] == [], "trials do not differ in their seed"


async def test_a_run_that_is_renamed_is_still_that_of_its_trial(runner: Runner) -> None:
    begun = await call(runner, "sweep.start", space=SPACE, trials=1, overrides=SHORT)
    study = Study(runner.folders.data / "sweeps.sqlite3", begun["id"])
    await until(lambda: [one.run_id for one in study.status().trials] not in ([], [""]))
    run = runner.run_manager.run
    assert run is not None
    await call(runner, "runs.edit", run=run.run_id, name="a good one")
    say(run, "verdict", best_score=1.0, mean_return=1.0)
    await until(lambda: not runner.sweeps.goes_on)
    (trial,) = (await call(runner, "sweep.status"))["trials"]
    assert (trial["state"], trial["run_id"]) == ("complete", run.run_id)


async def test_a_trial_waits_for_room_in_the_queue(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_ROOM_AGAIN_S", 0.05)
    monkeypatch.setattr("soulsgui.runner.run.queue._MOST", 0)
    queue, tries = runner.run_manager.queue, list[int]()
    monkeypatch.setattr(queue, "add", lambda entries: [tries.append(1), RunQueue.add(queue, entries)])
    await call(runner, "run.start", name="before")
    await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    await until(lambda: len(tries) > sweep._GIVEN_UP_AFTER)
    monkeypatch.setattr("soulsgui.runner.run.queue._MOST", 1)
    await until(lambda: [one.name for one in runner.status().queue] == ["trial 0"])
    (waiting,) = runner.status().queue
    assert waiting.config_summary.startswith("ppo.learning_rate = ")
    assert waiting.config_summary.endswith(f", else as sweep {waiting.sweep}")
    assert [one["state"] for one in (await call(runner, "sweep.status"))["trials"]] == ["running"]
    told = [one.cause for one in runner.events.since(0) if "waits for room in the queue" in one.what]
    assert told == ["The queue holds 0 runs at most."]


async def test_a_sweep_is_stopped_with_its_run(runner: Runner) -> None:
    await call(runner, "run.start", name="before")
    await call(runner, "sweep.start", space=SPACE, overrides=SHORT)
    await until(lambda: [one.name for one in runner.status().queue] == ["trial 0"])
    assert (await call(runner, "sweep.stop"))["state"] == "stopped"
    assert runner.status().queue == []
    assert runner.status().run.name == "before"
    assert not runner.sweeps.goes_on


async def test_the_run_of_a_sweep_that_an_earlier_runner_has_ended_is_stopped(runner: Runner) -> None:
    await call(runner, "sweep.start", space=SPACE, overrides={"stop.env_steps": 10**9})
    await until(lambda: runner.status().run.state == "running")
    Study(runner.folders.data / "sweeps.sqlite3", runner.run_manager.record.sweep).end("stopped")
    runner.sweeps._study = runner.sweeps._trial = None  # as in the next runner, which has taken over the run
    await until(lambda: not runner.sweeps.goes_on)
    assert runner.run_manager.session is None
    assert runner.run_manager.record.state == "stopped"


async def test_no_sweep_is_gone_on_with_before_its_workers_are_taken_over(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_of(folders.data / "sweeps.sqlite3").end("stopped")
    folders.server.mkdir(parents=True, exist_ok=True)
    active = folders.server / "active_sweep.json"
    active.write_text('{"sweep": "one"}')
    there = []

    async def adopt(_workers: Workers) -> None:
        await asyncio.sleep(1.0)
        there.append(active.exists())

    monkeypatch.setattr(Workers, "adopt", adopt)
    async with opened(new_runner(folders)) as runner:
        await until(lambda: not runner.sweeps.goes_on)
    assert there == [True]


@pytest.mark.parametrize(
    ("trials", "kills"), [(2, 1), pytest.param(20, 2, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_sweep_goes_on_after_the_runner_was_killed(serving: Serving, trials: int, kills: int) -> None:
    runner = serving.start("--idle")
    api = serving.api(runner)
    api.command("sweep.start", {"space": SPACE, "trials": trials, "overrides": {"stop.env_steps": 3000}})
    killed: list[str] = []

    def score() -> None:
        """Let telemetry say what each run comes to: trials without a score end the sweep."""
        for run in serving.runs.glob("*"):
            if not (run / "verdict.json").exists():
                say(RunFolder(run), "verdict", best_score=1.0, mean_return=1.0)

    def another_trains() -> bool:
        run = api.status()["run"]
        score()  # it may reach its end while there is no runner
        return bool(run["env_steps"]) and run["id"] not in killed

    def over() -> bool:
        score()
        return bool(api.command("sweep.status", {})["state"] == "finished")

    while len(killed) < kills:
        until_now(another_trains)
        killed.append(api.status()["run"]["id"])
        crash(runner)
        runner = serving.start("--idle")
        api = serving.api(runner)
    until_now(over, trials * LIMIT_S)
    runs = [one["run_id"] for one in api.command("sweep.status", {})["trials"]]
    assert (len(runs), [one for one in runs if one in killed]) == (trials, killed)
    assert sorted(path.name for path in serving.runs.iterdir()) == sorted(runs)
    api.command("server.shutdown")
    assert ended(runner)[0] == 0


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
def test_trials_are_made_side_by_side_through_kills_and_ended_with_all_they_started(serving: Serving) -> None:
    runner = serving.start("--idle")
    api = serving.api(runner)
    workers = serving.folder / "data" / "workers"
    long = ONE_CLIENT | {"stop.env_steps": 10**9}
    api.command("sweep.start", {"space": SPACE, "trials": 4, "parallel": 2, "overrides": long})

    def trials() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = api.command("sweep.status", {})["trials"]
        return found

    def both_train() -> bool:
        """Whether two runs go on, one of them of a worker."""
        runs = [*serving.runs.glob("*/run.json"), *workers.glob("2/runs/*/run.json")]
        states = [json.loads(path.read_text())["state"] for path in runs]
        return states.count("running") == 2

    until_now(both_train)
    assert [one["state"] for one in trials()] == ["running", "running"]
    assert trials()[0]["values"] != trials()[1]["values"]
    worker = next(one["pid"] for one in api.status()["services"] if one["name"] == "worker-2")
    crash(runner)
    runner = serving.start("--idle")
    api = serving.api(runner)
    services = until_now(lambda: {one["name"]: one for one in api.status()["services"]}.get("worker-2"))
    assert services is not None
    assert services["pid"] == worker, "it is taken over"
    psutil.Process(worker).kill()  # what it has started lives on
    until_now(lambda: any(one["restarts"] for one in api.status()["services"]))

    def end(run: Path) -> None:
        say(RunFolder(run), "verdict", best_score=1.0, mean_return=1.0)
        say(RunFolder(run), stop_reached=True)

    (theirs,) = workers.glob("2/runs/*")
    end(theirs)
    until_now(lambda: (serving.runs / theirs.name / "run.json").exists(), 2 * LIMIT_S)
    until_now(lambda: len(trials()) == 3 and both_train(), 2 * LIMIT_S)
    assert [one["state"] for one in trials()] == ["running", "complete", "running"]
    assert trials()[1]["run_id"] == theirs.name
    events = [one for one in api.command("history.events", {})["events"] if one["run_id"] == theirs.name]
    assert "was started" in events[0]["what"], "its events are told here, too"
    assert api.command("sweep.stop", {})["state"] == "stopped"
    assert [one["state"] for one in trials()] == ["pruned", "complete", "pruned"]
    runs = {run["id"]: run["state"] for run in api.command("runs.list", {})["runs"]}
    assert sorted(runs) == sorted(one["run_id"] for one in trials())
    assert sorted(runs.values()) == ["finished", "stopped", "stopped"]
    assert not [*workers.glob("*")]
    assert not [one for one in serving.processes() if any(str(workers) in word for word in one.cmdline())]
    api.command("server.shutdown")
    assert ended(runner)[0] == 0
