"""The runner as a whole: every command of the API, with its effect."""

import asyncio
import contextlib
import importlib.util
import json
import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import EnvironmentCheckError, SoulsGuiError, UsageError
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused, as_api_error
from soulsgui.runner.run import manager
from soulsgui.runner.run.services import RunServices
from soulsgui.runner.run.start import Told
from soulsgui.runner.server.reader import Turn
from soulsgui.runner.services.outcome import RestartLimits
from soulsgui.runner.services.service import Health
from soulsgui.system import process_identity
from soulsgui.wire.control import COMMANDS, ControlFile, ErrorCode
from soulsgui.wire.messages.node import Reject, Rejects, Verdict
from soulsgui.wire.messages.session import LINE_FIELD, Grant, SentLine
from tests.faults.waiting import LIMIT_S
from tests.runner.running import call, fake_probe, new_runner, until


def service_states(runner: Runner) -> dict[str, str]:
    return {service.name: service.state for service in runner.supervisor.statuses()}


def client_states(runner: Runner) -> dict[str, str]:
    return {client.id: client.state for client in runner.status().clients}


async def test_hello_names_the_server_and_its_commands(runner: Runner) -> None:
    hello = await call(runner, "server.hello")
    assert hello["server_id"] == runner.control.server_id
    assert hello["data_dir"] == str(runner.folders.data)
    of_client_mode = {name for name in COMMANDS if name.startswith(("servers.", "rules."))}
    assert set(hello["capabilities"]) == set(COMMANDS) - of_client_mode


async def test_run_goes_from_start_to_stop_and_leaves_its_record(runner: Runner) -> None:
    started = await call(runner, "run.start", name="first try", overrides={"seed": 7})
    run = RunFolder(runner.library.find(started["run_id"]).root)
    assert run.run_id.endswith("_first-try")
    assert json.loads(run.config.read_text())["seed"] == 7
    assert json.loads(run.spaces.read_text()) == (await fake_probe(runner.settings, print))["spaces"]
    await until(lambda: runner.status().run.state == "running")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    names = ("redis", "trainer", "telemetry", "evaluator", "client-1")
    await until(lambda: service_states(runner) == dict.fromkeys(names, "running"))
    pids = [service.pid for service in runner.supervisor.statuses() if service.name != "redis"]

    assert (await call(runner, "run.stop"))["run_id"] == run.run_id

    assert all(process_identity(pid or 0) is None for pid in pids)
    assert service_states(runner)["redis"] == "running"
    record = runner.library.record(run)
    assert (record.state, record.reached, record.seed) == ("stopped", "stopped", 7)
    assert record.env_steps > 0
    assert record.restarts == dict.fromkeys(names[1:], 0)
    assert run.checkpoint.is_dir()
    await until(lambda: client_states(runner) == {"client-1": "left"})


async def test_second_start_is_refused_or_replaces_the_first(runner: Runner) -> None:
    first = await call(runner, "run.start")
    with pytest.raises(Refused, match=first["run_id"]):
        await call(runner, "run.start")
    second = await call(runner, "run.start", if_active="stop")
    assert runner.library.record(runner.library.find(first["run_id"])).state == "stopped"
    assert runner.run_manager.run is not None
    assert runner.run_manager.run.run_id == second["run_id"] != first["run_id"]


async def test_of_two_that_replace_the_first_at_once_one_is_refused_and_leaves_nothing(
    runner: Runner,
) -> None:
    first = await call(runner, "run.start")
    starts = [call(runner, "run.start", if_active="stop") for _ in range(2)]
    second, refused = await asyncio.gather(*starts, return_exceptions=True)
    assert isinstance(second, dict)
    assert isinstance(refused, Refused)
    assert "same moment" in refused.message
    assert {run.run_id for run in runner.library.folders()} == {first["run_id"], second["run_id"]}


async def test_mistake_in_overrides_starts_nothing(runner: Runner) -> None:
    with pytest.raises(SoulsGuiError, match=r"ppo\.gamma"):
        await call(runner, "run.start", overrides={"ppo.gama": 0.9})
    assert runner.library.folders() == []
    assert list(service_states(runner)) == ["redis"]


async def test_environment_that_does_not_work_leaves_nothing(folders: Folders, fake_services: None) -> None:
    async def broken(_settings: object, _told: object) -> dict[str, Any]:
        raise EnvironmentCheckError("It raised in reset.")

    runner = new_runner(folders, probe=broken)
    await runner.open()
    try:
        with pytest.raises(EnvironmentCheckError, match="reset"):
            await call(runner, "run.start")
        assert list(folders.runs.iterdir()) == []
        assert list(service_states(runner)) == ["redis"]
        assert runner.status().run.state == "none"
    finally:
        await runner.close()


async def test_what_the_algorithm_can_not_take_is_refused_before_anything_starts(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def misfit(_settings: object, _told: object) -> dict[str, Any]:
        raise EnvironmentCheckError("sac chooses numbers within bounds")

    async def never(_services: RunServices) -> None:
        raise AssertionError("a service was started")

    monkeypatch.setattr(RunServices, "start", never)
    runner = new_runner(folders, probe=misfit)
    await runner.open()
    try:
        with pytest.raises(EnvironmentCheckError, match="within bounds") as caught:
            await call(runner, "run.start", overrides={"algorithm": "sac"})
        assert as_api_error(caught.value, "run.start").code is ErrorCode.BAD_CONFIG
        assert list(folders.runs.iterdir()) == []
    finally:
        await runner.close()


async def test_stop_in_the_middle_of_the_beginning_ends_everything(
    folders: Folders, fake_services: None
) -> None:
    probing = asyncio.Event()

    async def slow(_settings: object, _told: object) -> dict[str, Any]:
        probing.set()
        await asyncio.Event().wait()
        raise AssertionError

    runner = new_runner(folders, probe=slow)
    await runner.open()
    try:
        starting = asyncio.create_task(call(runner, "run.start"))
        await probing.wait()
        await call(runner, "run.stop")
        with pytest.raises(Refused, match="before it had begun"):
            await starting
        assert list(service_states(runner)) == ["redis"]
        assert list(folders.runs.iterdir()) == []
    finally:
        await runner.close()


async def test_a_slow_check_is_told_of_while_it_goes_on_and_so_is_how_it_ends(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def slow(_settings: object, told: Told) -> dict[str, Any]:
        told("step 3")
        await over.wait()
        raise EnvironmentCheckError("It raised in step 4.")

    monkeypatch.setattr(manager, "OPEN_LIMIT_S", 0.1)
    runner = new_runner(folders, probe=slow)
    await runner.open()
    try:
        with pytest.raises(Refused, match="it goes on starting") as caught:
            await call(runner, "run.start", name="by hand")
        assert caught.value.code is ErrorCode.NO_ANSWER
        await until(lambda: runner.status().run.detail == "checking the environment: step 3")
        over.set()
        await until(lambda: runner.status().run.state == "none")
        event = runner.events.newest(1)[0]
        assert event.level == "error"
        assert event.what == "Run by hand could not be begun"
        assert event.cause == "It raised in step 4."
        assert list(folders.runs.iterdir()) == []
    finally:
        await runner.close()


async def test_nobody_else_starts_a_game_in_real_time_while_it_is_checked(
    folders: Folders, fake_services: None
) -> None:
    async def broken(_settings: object, _told: object) -> dict[str, Any]:
        await until(lambda: runner.status().run.state == "starting")
        assert list(service_states(runner)) == ["redis"]
        raise EnvironmentCheckError("It raised in reset.")

    runner = new_runner(folders, {"client.step_seconds": 0.1}, probe=broken)
    await runner.open()
    try:
        with pytest.raises(EnvironmentCheckError, match="reset"):
            await call(runner, "run.start")
    finally:
        await runner.close()


async def test_steps_goal_ends_the_run(runner: Runner) -> None:
    await call(runner, "run.start", overrides={"stop.env_steps": 300})
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    assert (runner.run_manager.record.state, runner.run_manager.record.reached) == ("finished", "env_steps")
    assert runner.run_manager.record.env_steps >= 300
    assert (await call(runner, "runs.list"))["runs"][0]["state"] == "finished"


async def test_a_training_that_diverged_is_told_when_it_happens_and_when_it_is_overcome(
    runner: Runner,
) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)

    def told(level: str, what: str) -> bool:
        return any((event.level, event.what) == (level, what) for event in runner.events.since(0))

    words = "The training diverged at update 3: loss is nan. It goes on from update 2 (restore 1 of 3)"
    (run.root / "says.json").write_text(json.dumps({"diverged": words}))
    await until(lambda: told("error", words))
    (run.root / "says.json").unlink()
    await until(lambda: told("info", "The training has passed the place where it diverged"))


async def test_a_run_with_evaluations_has_an_evaluator_that_ends_with_it(runner: Runner) -> None:
    await call(runner, "run.start", overrides={"evaluation.every_updates": 5})
    await until(lambda: service_states(runner).get("evaluator") == "running")
    await call(runner, "run.stop")
    assert service_states(runner)["evaluator"] == "stopped"
    await call(runner, "run.start", overrides={"evaluation.every_updates": 0})
    assert "evaluator" not in service_states(runner)


async def test_telemetrys_verdict_ends_the_run_with_its_best_model_saved(runner: Runner) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)
    say_verdict(run, Verdict(best_model_id=5, best_score=1.5))
    await until(run.best_model.is_dir)
    say_verdict(run, Verdict(best_model_id=9, best_score=2.5, reached=True))
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    assert runner.run_manager.record.reached == "mean_return"
    best = next(info for info in runner.library.checkpoints.list(run) if info.kind == "best")
    assert (best.model_id, best.score) == (9, 2.5)


async def test_a_trainer_that_wants_the_run_stopped_is_heard(runner: Runner) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)
    await runner.bus.call(lambda connection: connection.set(runner.bus.keys.config, "a run"))
    reason = "The round lost b (paused) (ppo.lost_member: stop)"
    say_more(run, stop_reason=reason)
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    record = runner.run_manager.record
    assert (record.state, record.reached, record.error) == ("stopped", "stopped", reason)
    assert run.checkpoint.is_dir(), "saved, as at every stop"
    last = runner.events.newest(1)[0]
    assert (last.level, last.cause) == ("warning", reason)
    assert last.what == f"Run {run.run_id} was stopped"
    # Clients that live on elsewhere are told that no run goes on.
    assert not await runner.bus.call(lambda connection: connection.exists(runner.bus.keys.config))


async def test_what_holds_the_run_up_is_told_once_and_its_end_too(runner: Runner) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)
    before = runner.events.last_number
    say_more(run, trouble="The round is waiting for b (paused)")
    await until(lambda: runner.events.since(before))
    say_more(run)
    await until(lambda: len(runner.events.since(before)) > 1)
    told = [(event.level, event.what, event.run_id) for event in runner.events.since(before)]
    assert told == [
        ("warning", "The round is waiting for b (paused)", run.run_id),
        ("info", "The run waits no longer.", run.run_id),
    ]


async def test_who_waits_for_whom_is_in_the_status_and_on_the_trainers_card(runner: Runner) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)
    say_more(run, learner_waits=0.38, clients_wait=0.0)
    await until(lambda: runner.status().run.learner_waits == 0.38)
    assert runner.status().run.clients_wait == 0.0

    def card() -> str:
        return next(service.detail for service in runner.status().services if service.name == "trainer")

    await until(lambda: card() == "waits for samples 38 %")
    await call(runner, "run.stop")
    assert runner.status().run.learner_waits is None


async def test_the_memory_is_on_the_card_of_redis_and_in_the_status(runner: Runner) -> None:
    async def look() -> None:
        runner.memory.words = "memory 52 % full: clients wait"

    runner.memory.look = look  # type: ignore[method-assign]
    await until(lambda: runner.status().server.memory_limit_bytes == runner.settings.redis.max_memory)

    def card() -> str:
        return next(service.detail for service in runner.status().services if service.name == "redis")

    await until(lambda: card() == "memory 52 % full: clients wait")


def say_more(run: RunFolder, **fields: Any) -> None:
    aside = run.root / "says.tmp"
    aside.write_text(json.dumps(fields))
    aside.replace(run.root / "says.json")


async def test_best_model_that_is_gone_is_asked_for_once(runner: Runner) -> None:
    started = await call(runner, "run.start")
    run = RunFolder(runner.library.find(started["run_id"]).root)
    say_verdict(run, Verdict(best_model_id=-1, best_score=1.0))
    asked: list[str] = []
    ask = runner.bus.ask

    async def listen(node: str, command: Any, timeout_s: float) -> Any:
        asked.append(command.args.get("kind", command.command))
        return await ask(node, command, timeout_s)

    runner.bus.ask = listen  # type: ignore[method-assign]
    await until(lambda: asked)
    await call(runner, "run.stop")
    assert asked.count("best") == 1


def say_verdict(run: RunFolder, verdict: Verdict) -> None:
    aside = run.root / "verdict.tmp"
    aside.write_text(verdict.to_json())
    aside.replace(run.root / "verdict.json")


async def test_quicksave_answers_with_the_checkpoint_on_disk(runner: Runner) -> None:
    with pytest.raises(Refused, match="No run"):
        await call(runner, "checkpoint.save")
    started = await call(runner, "run.start")
    await until(lambda: runner.status().run.env_steps > 0)
    saved = (await call(runner, "checkpoint.save", note="so far so good"))["checkpoint"]
    assert saved["kind"] == "manual"
    assert saved["valid"]
    assert saved["note"] == "so far so good"
    listed = (await call(runner, "checkpoint.list", run=started["run_id"]))["checkpoints"]
    assert saved in listed
    edited = await call(
        runner, "checkpoint.edit", run=started["run_id"], path=saved["id"], note="better than I thought"
    )
    assert edited["checkpoint"]["note"] == "better than I thought"
    assert edited["checkpoint"]["valid"]


async def services_that_fail(_services: RunServices) -> None:
    raise SoulsGuiError("no program")


@pytest.mark.allow_warnings
async def test_resume_goes_on_with_the_same_folder_and_with_other_values_once_it_begins(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = await call(runner, "run.start")
    await until(lambda: runner.status().run.env_steps > 0)
    saved = (await call(runner, "checkpoint.save"))["checkpoint"]
    await call(runner, "run.stop")
    seconds = runner.run_manager.record.seconds
    run = RunFolder(runner.library.find(started["run_id"]).root)
    before = run.config.read_bytes()
    with pytest.raises(UsageError, match=r"ppo\.gamma"):
        await call(runner, "run.resume", overrides={"ppo.gamma": 0.5})
    overrides = {"clients.local": 2, "stop.env_steps": 10**9}
    with monkeypatch.context() as broken:
        broken.setattr(RunServices, "start", services_that_fail)
        with pytest.raises(SoulsGuiError, match="no program"):
            await call(runner, "run.resume", overrides=overrides)
    assert (run.config.read_bytes(), runner.run_manager.run) == (before, None)
    resumed = await call(runner, "run.resume", checkpoint=saved["id"], overrides=overrides)
    assert resumed == started
    await until(lambda: runner.status().run.state == "running")
    assert runner.status().run.seconds > seconds
    assert runner.status().run.goal_env_steps == 10**9
    assert runner.library.settings(run).clients.local == 2
    assert {"client-1", "client-2"} <= set(service_states(runner))
    told = (await call(runner, "history.events"))["events"][-1]["what"]
    changes = "stop.env_steps = 1000000000 (was null), clients.local = 2 (was 1)"
    assert told == f"Run {run.run_id} was resumed from {saved['id']} with {changes}"
    # The trainer has saved nothing yet: started again, it must begin from the same one.
    assert (run.root / "resume_from").read_text() == saved["id"]
    await call(runner, "checkpoint.save")
    await until(lambda: not (run.root / "resume_from").exists())


@pytest.mark.allow_warnings
async def test_resume_probes_again_where_the_spaces_are_damaged(runner: Runner) -> None:
    started = await call(runner, "run.start")
    spaces = runner.library.find(started["run_id"]).spaces
    await until(lambda: runner.status().run.state == "running")
    await call(runner, "run.stop")
    spaces.write_bytes(b"{torn")
    await call(runner, "run.resume")
    assert json.loads(spaces.read_text()) == (await fake_probe(runner.settings, print))["spaces"]


async def test_resume_refuses_a_checkpoint_that_is_damaged(runner: Runner) -> None:
    await call(runner, "run.start")
    await until(lambda: runner.status().run.env_steps > 0)
    saved = (await call(runner, "checkpoint.save"))["checkpoint"]
    await call(runner, "run.stop")
    run = runner.library.find("latest")
    (run.root / saved["id"] / "weights.safetensors").write_bytes(b"?" * 64)
    with pytest.raises(SoulsGuiError, match="damaged"):
        await call(runner, "run.resume", checkpoint=saved["id"])
    with pytest.raises(SoulsGuiError, match="no checkpoint"):
        await call(runner, "run.resume", checkpoint="manual_save/../../elsewhere")
    assert runner.run_manager.run is None


@pytest.mark.allow_warnings
async def test_the_events_of_a_run_tell_of_redis_too_and_call_it_by_its_name(runner: Runner) -> None:
    run_id = (await call(runner, "run.start", name="lunar 2"))["run_id"]
    killed = runner.supervisor.pid_of("redis")
    assert killed is not None
    psutil.Process(killed).kill()

    def told() -> list[str]:
        return [event.what for event in runner.events.since(0) if event.run_id == run_id]

    await until(lambda: "redis runs again" in told())
    assert told()[0] == "Run lunar 2 was started"
    assert "redis ended unexpectedly" in told()
    # What the stand-in of a trainer learned is lost with the server.
    with contextlib.suppress(Refused):
        await call(runner, "run.stop")
    assert told()[-1] == "Run lunar 2 was stopped"


async def test_a_lost_client_and_its_return_are_events_of_the_run(runner: Runner) -> None:
    run_id = (await call(runner, "run.start"))["run_id"]
    before, names = runner.events.last_number, ["a", "b", "c", "d", "e"]
    news = iter([(["gamer-01"], []), (names, ["gamer-01"])])
    runner.roster.news_of_lost = lambda now: next(news, ([], []))  # type: ignore[method-assign]
    await until(lambda: runner.events.last_number >= before + 3)
    events = runner.events.since(before)
    assert [(event.level, event.what) for event in events] == [
        ("warning", "gamer-01 is lost."),
        ("warning", "a, b, c and 2 more are lost."),
        ("info", "gamer-01 is back."),
    ]
    assert {event.run_id for event in events} == {run_id}


async def test_trainer_that_was_killed_is_started_again_and_the_run_goes_on(runner: Runner) -> None:
    await call(runner, "run.start")
    await until(lambda: runner.status().run.state == "running")
    killed = runner.supervisor.pid_of("trainer")
    assert killed is not None
    psutil.Process(killed).kill()
    await until(lambda: runner.status().run.state == "starting")
    await until(lambda: runner.status().run.state == "running")
    assert runner.supervisor.pid_of("trainer") != killed
    await call(runner, "run.stop")
    assert runner.run_manager.record.restarts["trainer"] == 1


@pytest.mark.allow_warnings
async def test_trainer_that_always_crashes_fails_the_run_with_its_last_lines(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.supervisor._context.limits = RestartLimits(first_delay_s=0.01, max_failures=2)
    create = runner.library.create

    def doomed(name: str, wall_time: float) -> RunFolder:
        run = create(name, wall_time)
        (run.root / "crash").touch()
        return run

    monkeypatch.setattr(runner.library, "create", doomed)
    with pytest.raises(Refused, match="fake: crash"):
        await call(runner, "run.start")
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    assert (runner.run_manager.record.state, runner.run_manager.record.reached) == ("failed", "failed")
    assert "exit 1" in runner.run_manager.record.error
    assert service_states(runner)["telemetry"] == "stopped"
    monkeypatch.setattr(runner.library, "create", create)
    # What failed before is not held against the next one.
    await call(runner, "run.start")
    await until(lambda: runner.status().run.state == "running")


async def test_local_clients_come_and_go(runner: Runner) -> None:
    with pytest.raises(Refused, match="No run"):
        await call(runner, "service.local_clients", count=2)
    await call(runner, "run.start")
    assert await call(runner, "service.local_clients", count=3) == {"count": 3}
    names = {f"client-{number}" for number in (1, 2, 3)}
    await until(lambda: client_states(runner) == dict.fromkeys(names, "online"))
    await call(runner, "service.local_clients", count=1)
    await until(lambda: set(client_states(runner)) == {"client-1"})
    assert "client-3" not in service_states(runner)


async def test_client_is_paused_resumed_drained_and_forgotten(runner: Runner) -> None:
    await call(runner, "run.start")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    await call(runner, "clients.pause", client="client-1")
    await until(lambda: client_states(runner)["client-1"] == "paused")
    assert next(client.wish for client in runner.status().clients) == "pause"
    await call(runner, "clients.resume", client="client-1")
    await until(lambda: client_states(runner)["client-1"] == "online")
    with pytest.raises(Refused, match="come back"):
        await call(runner, "clients.forget", client="client-1")
    await call(runner, "clients.drain", client="client-1")
    await until(lambda: client_states(runner)["client-1"] == "left")
    await until(lambda: service_states(runner)["client-1"] == "stopped")
    await until(lambda: next(client.wish for client in runner.status().clients) == "run")
    await call(runner, "clients.forget", client="client-1")
    await until(lambda: client_states(runner) == {})
    with pytest.raises(Refused, match="no client"):
        await call(runner, "clients.pause", client="client-1")


async def test_only_a_client_that_was_cut_off_is_released_and_by_the_trainer(runner: Runner) -> None:
    with pytest.raises(Refused, match="There is no client 'nobody'"):
        await call(runner, "clients.release", client="nobody")
    await call(runner, "run.start")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    with pytest.raises(Refused, match="client-1 is online"):
        await call(runner, "clients.release", client="client-1")
    keys, beat = runner.bus.keys, runner.roster.beat("client-1")
    assert beat is not None
    grant = Grant(session=beat.session, status="quarantined", reason="NaN")
    await runner.bus.call(lambda connection: connection.set(keys.grant("client-1"), grant.to_json()))
    await until(lambda: client_states(runner) == {"client-1": "quarantined"})
    assert await call(runner, "clients.release", client="client-1") == {}  # the trainer has answered
    await call(runner, "run.stop")
    with pytest.raises(Refused, match="No run"):
        await call(runner, "clients.release", client="client-1")


async def test_refused_chunks_are_shown_by_client(runner: Runner) -> None:
    assert (await call(runner, "clients.rejects"))["rejects"] == []
    rejects = [
        Reject(client=client, entry="1-1", reason="shape", time=1.0, size=5, head="ff")
        for client in ("a", "b")
    ]
    for client in ("a", "b"):
        await runner.bus.call(
            lambda connection, name=client: connection.hset(runner.bus.keys.clients, name, "{}")
        )
    kept = Rejects(run_id="run-1", rejects=rejects).to_json()
    await runner.bus.call(lambda connection: connection.set(runner.bus.keys.rejects, kept))
    await until(lambda: "a" in runner.roster)
    assert [one["client"] for one in (await call(runner, "clients.rejects"))["rejects"]] == ["a", "b"]
    (only,) = (await call(runner, "clients.rejects", client="b"))["rejects"]
    assert (only["client"], only["reason"], only["head"]) == ("b", "shape", "ff")
    with pytest.raises(Refused, match="There is no client"):
        await call(runner, "clients.rejects", client="nobody")


async def test_stopped_local_client_is_started_again_by_resume(runner: Runner) -> None:
    await call(runner, "run.start")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    await call(runner, "clients.stop", client="client-1")
    assert service_states(runner)["client-1"] == "stopped"
    await call(runner, "clients.resume", client="client-1")
    await until(lambda: client_states(runner) == {"client-1": "online"})


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.3, 0.6])
async def test_client_that_is_resumed_while_it_leaves_plays_again(runner: Runner, delay_s: float) -> None:
    await call(runner, "run.start")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    await call(runner, "clients.drain", client="client-1")
    await asyncio.sleep(delay_s)  # another moment of its way out each time
    await call(runner, "clients.resume", client="client-1")
    pid = runner.supervisor.pid_of("client-1")
    assert pid is not None
    await until(lambda: client_states(runner) == {"client-1": "online"})
    assert runner.supervisor.pid_of("client-1") == pid, "the one that was there when the command ended"


async def test_single_services_are_stopped_started_and_restarted(runner: Runner) -> None:
    await call(runner, "run.start")
    pid = runner.supervisor.pid_of("telemetry")
    await call(runner, "service.restart", name="telemetry")
    assert runner.supervisor.pid_of("telemetry") not in (None, pid)
    await call(runner, "service.stop", name="trainer")
    await until(lambda: runner.status().run.detail == "the trainer is stopped")
    await call(runner, "service.start", name="trainer")
    await until(lambda: runner.status().run.state == "running")
    with pytest.raises(Refused, match="without Redis"):
        await call(runner, "service.stop", name="redis")
    with pytest.raises(Refused, match="no service"):
        await call(runner, "service.stop", name="oven")
    await call(runner, "run.stop")
    with pytest.raises(Refused, match="No run"):
        await call(runner, "service.start", name="trainer")


@pytest.mark.allow_warnings
async def test_redis_that_was_restarted_loses_neither_run_nor_clients(runner: Runner) -> None:
    await call(runner, "run.start")
    await until(lambda: client_states(runner) == {"client-1": "online"})
    await call(runner, "service.restart", name="redis")
    steps = runner.status().run.env_steps

    # The stand-ins don't come back by themselves; the runner starts them again.
    def trainer_is_back() -> bool:
        trainer = next(found for found in runner.status().services if found.name == "trainer")
        return trainer.restarts > 0 and trainer.state == "running"

    await until(trainer_is_back)
    await until(lambda: runner.status().run.state == "running")
    assert steps > 0


async def test_run_is_renamed_while_it_goes_on_and_after(runner: Runner) -> None:
    started = await call(runner, "run.start")
    edited = await call(runner, "runs.edit", run=started["run_id"], name="new", note="while")
    assert (edited["name"], edited["note"]) == ("new", "while")
    await call(runner, "run.stop")
    await call(runner, "runs.edit", run=started["run_id"], note="after")
    listed = (await call(runner, "runs.list"))["runs"][0]
    assert (listed["name"], listed["note"], listed["resumable"]) == ("new", "after", True)
    assert runner.status().run.name == "new"


async def test_logs_and_events_are_told(runner: Runner) -> None:
    await call(runner, "run.start")
    await call(runner, "run.stop")
    logs = await call(runner, "history.logs", service="trainer")
    assert "start of trainer" in logs["lines"][0]["text"]
    assert logs["first"] == 1
    everything = await call(runner, "history.logs")
    assert {"trainer", "telemetry", "redis"} <= {line["service"] for line in everything["lines"]}
    with pytest.raises(Refused, match="no log"):
        await call(runner, "history.logs", service="oven")
    of_client = await call(runner, "clients.log", client="client-1")
    assert of_client["whole"] is True
    assert "start of client-1" in of_client["lines"][0]["text"]
    events = (await call(runner, "history.events"))["events"]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert "was started" in events[0]["what"]
    assert "was stopped" in events[-1]["what"]
    assert (await call(runner, "history.events", since=events[-1]["number"]))["events"] == []


async def test_query_of_a_run_without_rows_is_empty(runner: Runner) -> None:
    await call(runner, "run.start")
    history = await call(runner, "history.query")
    assert history["row"] == []
    with pytest.raises(Refused, match="no client 'nobody'"):
        await call(runner, "history.query", client="nobody")
    assert (await call(runner, "history.query", client="nobody", missing_ok=True))["row"] == []
    with pytest.raises(Refused, match="no run"):
        await call(runner, "history.query", run="1999")


async def test_shutdown_command_asks_the_runner_to_end(runner: Runner) -> None:
    assert await call(runner, "server.shutdown", save=False) == {}
    assert runner.closing.is_set()
    assert not runner.save_at_end


async def test_close_ends_run_and_server_and_leaves_no_control_file(
    folders: Folders, fake_services: None
) -> None:
    runner = new_runner(folders)
    await runner.open()
    control = folders.server / "control.json"
    assert ControlFile.load(control) == runner.control
    assert control.stat().st_mode & 0o077 == 0
    await call(runner, "run.start")
    pids = [service.pid for service in runner.supervisor.statuses()]
    await runner.close()
    assert not control.exists()
    assert all(process_identity(pid or 0) is None for pid in pids)
    assert runner.library.record(runner.library.find("latest")).reached == "stopped"
    again = new_runner(folders)
    await again.open()
    assert again.control.server_id == runner.control.server_id
    assert again.control.port == runner.control.port
    assert again.control.token != runner.control.token
    await again.close()


async def test_second_runner_says_who_holds_the_folder(runner: Runner) -> None:
    with pytest.raises(SoulsGuiError, match=f"process {os.getpid()}"):
        await new_runner(runner.folders).open()


async def test_taken_control_port_is_named_before_anything_is_started(
    folders: Folders, fake_services: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        runner = new_runner(folders, {"control.port": port})
        with pytest.raises(SoulsGuiError, match=f"Port {port}"):
            await runner.open()
    assert not (folders.server / "control.json").exists()


@pytest.mark.allow_warnings
async def test_end_that_can_not_be_written_down_is_an_end(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(runner, "run.start", name="before")

    def broken(*_: object) -> None:
        raise ValueError("can't be encoded")

    monkeypatch.setattr(runner.library, "write_record", broken)
    monkeypatch.setattr(manager, "remember_active", broken)
    with pytest.raises(ValueError, match="encoded"):
        await call(runner, "runs.edit", run="latest", name="after")
    assert runner.status().run.name == "before"
    async with asyncio.timeout(LIMIT_S):
        await call(runner, "run.stop")
    assert runner.run_manager.over.is_set()


async def test_nothing_is_started_while_the_run_is_being_ended(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(runner, "run.start")
    restarting = asyncio.create_task(call(runner, "service.restart", name="trainer"))
    await until(lambda: service_states(runner)["trainer"] == "stopping")
    stopping = asyncio.create_task(call(runner, "run.stop"))
    await until(lambda: runner.run_manager.ending)
    for command in ("service.start", "service.restart"):
        with pytest.raises(Refused, match="being ended"):
            await call(runner, command, name="telemetry")
    async with asyncio.timeout(LIMIT_S):
        await stopping
        with pytest.raises(SoulsGuiError):
            await restarting


@pytest.mark.allow_warnings
async def test_full_disk_makes_the_run_wait_and_nobody_fail(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call(runner, "run.start")
    await until(lambda: runner.status().run.state == "running")
    health = Health(ready=True, disk_full=True)
    monkeypatch.setattr(runner._pinger, "health", lambda: health)
    await until(lambda: runner.status().run.detail == "disk full")
    assert not runner.supervisor.server_up
    health = Health(ready=True)
    await until(lambda: runner.status().run.state == "running")
    assert runner.supervisor.server_up
    told = [event for event in runner.events.newest(9) if event.service == "redis"]
    assert [event.level for event in told] == ["error", "info"]
    assert told[0].remedy == "Free some space; training goes on by itself."


@pytest.mark.allow_warnings
async def test_watching_goes_on_after_a_reading_that_broke(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    broke = asyncio.Event()

    def broken(_look: bool) -> Turn:
        loop.call_soon_threadsafe(broke.set)
        raise ZeroDivisionError

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(runner._reader, "turn", broken)
        await asyncio.wait_for(broke.wait(), LIMIT_S)
        await until(lambda: not runner.supervisor.server_up)
    await until(lambda: runner.supervisor.server_up)


async def test_the_log_of_a_client_elsewhere_is_what_it_has_told(
    runner: Runner,
) -> None:
    keys = runner.bus.keys
    line = SentLine(level="error", text="the game crashed").to_json()
    await runner.bus.call(lambda connection: connection.hset(keys.clients, "gamer-01", "{}"))
    await runner.bus.call(lambda connection: connection.xadd(keys.log("gamer-01"), {LINE_FIELD: line}))
    await until(lambda: "gamer-01" in runner.roster)
    told = await call(runner, "clients.log", client="gamer-01")
    assert told["whole"] is False
    assert [one["text"] for one in told["lines"]] == ["the game crashed"]
    with pytest.raises(Refused, match="There is no client"):
        await call(runner, "clients.log", client="nobody")


async def test_a_paused_run_rests_until_it_is_told_to_go_on(runner: Runner) -> None:
    with pytest.raises(Refused, match="No run"):
        await call(runner, "run.pause")
    run = RunFolder(Path((await call(runner, "run.start"))["run_dir"]))
    with pytest.raises(Refused, match="was not paused"):
        await call(runner, "run.continue")
    for _ in range(2):  # said twice, it is one pause
        assert await call(runner, "run.pause") == {"done": True}
    await until(lambda: runner.status().run.state == "paused")
    assert runner.status().run.detail == "by request"
    assert runner.status().run.wished_pause
    assert run.paused.exists()  # a trainer that is started meanwhile rests, too
    assert await call(runner, "run.continue") == {"done": True}
    await until(lambda: runner.status().run.state == "running")
    told = [event.what.partition(run.run_id)[2] for event in runner.events.since(0)]
    assert [words for words in told if "pause" in words] == [" was paused", " goes on after a pause"]
    await call(runner, "run.pause")
    await call(runner, "run.stop")
    assert not runner.status().run.wished_pause
    assert not run.paused.exists()  # what is resumed goes on


async def test_a_run_is_refused_where_torch_is_missing(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "torch" else find(name, *more)
    )
    with pytest.raises(Refused, match="set up to play only") as refused:
        await call(runner, "run.start")
    assert "python3 packaging/bootstrap.py setup" in refused.value.remedy
    assert runner.status().run.id == ""
