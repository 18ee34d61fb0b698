"""`soulsgui serve` in a process of its own, with quick stand-ins for the services of a run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from soulsgui.errors import SoulsGuiError
from soulsgui.runner.headless import is_done, nobody_plays
from soulsgui.runner.run.record import RunRecord
from soulsgui.system import free_port
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.control import ControlFile
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until_now
from tests.runner.fake_program import CHECKING, LOADING, PATIENT, REPORT
from tests.runner.fake_serve import READY_LIMIT
from tests.states import client, service

FAKE_SERVE = Path(__file__).with_name("fake_serve.py")


FEW = ("--local-clients", "0", "--set", "evaluation.every_updates=0")
"""A run has a trainer and telemetry; each more process takes long to begin."""

ALL = ("--local-clients", "1", "--set", "evaluation.every_updates=20")
"""It has an evaluator and a client, too."""


class Serving:
    """Starts `serve` in one folder, as often as wanted; everything is ended at last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runners: list[subprocess.Popen[str]] = []

        self.control = folder / "data" / "server" / CONTROL_FILE
        self.runs = folder / "data" / "runs"
        self.places = ["--config-dir", str(folder / "config"), "--data-dir", str(folder / "data")]

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def start(
        self, *words: str, stderr: int | None = None, within: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Run `serve` with `FEW` and these words; standard error goes into a file unless told otherwise."""
        command = [*within, sys.executable, str(FAKE_SERVE), "serve", *FEW, *words]
        runner = subprocess.Popen(
            [*command, *self.places],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("a") if stderr is None else stderr,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        )
        self.runners.append(runner)
        return runner

    def api(self, runner: subprocess.Popen[str]) -> ApiClient:
        """Return the way to a runner, once it is open."""

        def found() -> ControlFile | None:
            assert runner.poll() is None, self.stderr
            try:
                control = ControlFile.load(self.control)
            except SoulsGuiError:
                return None
            return control if control.pid == runner.pid else None

        control = until_now(found)
        assert control is not None
        return ApiClient(control)

    def running(self, runner: subprocess.Popen[str]) -> tuple[ApiClient, dict[str, int]]:
        """Return the way to a runner and the pids of its services, once its run is running."""
        api = self.api(runner)
        until_now(lambda: api.status()["run"]["state"] == "running")
        until_now(lambda: all(one["state"] == "running" for one in api.status()["services"]))
        return api, {one["name"]: one["pid"] for one in api.status()["services"]}

    def processes(self) -> list[psutil.Process]:
        """Every process that has to do with this folder."""
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if any(str(self.folder) in word for word in process.info["cmdline"] or [])
        ]

    def close(self) -> None:
        for process in self.processes():
            process.kill()
        for runner in self.runners:
            runner.communicate()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    made = Serving(tmp_path)
    yield made
    made.close()


def ended(runner: subprocess.Popen[str]) -> tuple[int, str]:
    """Return exit code and standard output of a runner that ends."""
    output, _ = runner.communicate(timeout=LIMIT_S)
    return runner.returncode, output


def crash(runner: subprocess.Popen[str]) -> None:
    runner.kill()
    runner.wait()


def kill_all(pids: Iterable[int]) -> None:
    """Kill what a runner left; without Redis some end by themselves."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


GOAL = ("--until-done", "--json", "--set", "stop.env_steps=200")


def test_goal_ends_all_with_one_json_document_and_no_later_server_tells_of_it(serving: Serving) -> None:
    code, output = ended(serving.start(*GOAL, *ALL, "--name", "quick"))
    assert code == 0
    summary = json.loads(output)
    assert (summary["reached"], summary["env_id"], summary["rejected"]) == ("env_steps", "CartPole-v1", {})
    assert summary["env_steps"] >= 200
    assert (summary["algorithm"], summary["agent"]) == ("ppo", "")
    assert (summary["evaluation_return"], summary["goal_judged_by"]) == (None, "both")
    assert summary["restarts"] == dict.fromkeys(("trainer", "telemetry", "evaluator", "client-1"), 0)
    assert Path(summary["run_dir"]).name == summary["run_id"]
    assert summary["checkpoint"] == str(Path(summary["run_dir"]) / "checkpoint")
    assert serving.processes() == []
    assert not serving.control.exists()

    # An error of the start that nobody foresaw is told.
    assert ended(serving.start(*GOAL, "--name", "caf\udce9")) == (1, "")
    assert "run.start" in serving.stderr
    assert len(list(serving.runs.iterdir())) == 1

    runner = serving.start("--idle", "--json")
    api = serving.api(runner)
    lines = until_now(lambda: api.command("history.logs", {"service": "runner"})["lines"])
    assert "start of runner" in lines[0]["text"]
    api.command("server.shutdown")
    assert ended(runner) == (0, "{}\n")


@pytest.mark.parametrize(
    ("slow", "limit_s", "report", "code"),
    [
        (LOADING, "0", None, 0),
        (CHECKING, "0.5", None, 0),
        (CHECKING, "0.5", '{"report": {"problems": ["no sword"]}}', 2),
    ],
)
def test_a_run_that_is_slow_to_start_or_to_be_checked_goes_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, slow: str, limit_s: str, report: str | None, code: int
) -> None:
    held = serving.folder / "held"
    held.touch()
    monkeypatch.setenv(slow, str(held))
    monkeypatch.setenv(READY_LIMIT, limit_s)
    if report is not None:
        monkeypatch.setenv(REPORT, report)
    runner = serving.start(*GOAL)
    if slow == CHECKING:
        api = serving.api(runner)
        until_now(lambda: api.status()["run"]["detail"] == "checking the environment: step 1")
        until_now(lambda: api.status()["run"]["env_steps"] >= 200)  # what its services do ends nothing
    until_now(lambda: "it is still starting" in serving.stderr)
    held.unlink()
    assert ended(runner)[0] == code
    assert ("no sword" in serving.stderr) == bool(code)


def test_what_goes_wrong_is_told_where_it_was_started(serving: Serving) -> None:
    runner = serving.start(*ALL)
    api, pids = serving.running(runner)
    os.kill(pids["client-1"], signal.SIGKILL)
    until_now(lambda: "client-1 ended unexpectedly. killed by signal 9" in serving.stderr)
    api.command("server.shutdown")
    assert ended(runner)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_asked_to_end_it_saves_and_leaves_nothing(serving: Serving, number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, this suite hands down that one is ignored
    runner = serving.start()
    signal.signal(number, before)
    serving.running(runner)
    runner.send_signal(number)
    code, output = ended(runner)
    assert code == 0
    assert "was stopped" in output
    assert serving.processes() == []
    (run,) = serving.runs.iterdir()
    assert (run / "checkpoint" / "manifest.json").exists()


def test_asked_twice_it_does_not_wait_for_a_service_that_is_deaf(serving: Serving) -> None:
    runner = serving.start()
    api, _ = serving.running(runner)
    (Path(api.status()["run"]["dir"]) / "deaf").touch()
    runner.send_signal(signal.SIGINT)
    until_now(lambda: api.status()["run"]["state"] == "saving")
    runner.send_signal(signal.SIGINT)
    assert ended(runner)[0] == 0
    assert serving.processes() == []


def test_asked_three_times_it_ends_whatever_it_waits_for(serving: Serving) -> None:
    runner = serving.start()
    api, pids = serving.running(runner)
    os.kill(pids["redis"], signal.SIGSTOP)
    (Path(api.status()["run"]["dir"]) / "deaf").touch()

    for _ in range(2):
        runner.send_signal(signal.SIGINT)
        api.status()  # whoever answers has noticed it: signals that come at once are one
    runner.send_signal(signal.SIGINT)
    assert ended(runner)[0] == 1
    until_now(lambda: not serving.processes())


def test_idle_server_keeps_its_folder_and_waits_for_commands_until_it_is_shut_down(serving: Serving) -> None:
    serving.runs.parent.mkdir()
    serving.runs.touch()
    assert ended(serving.start(*GOAL)) == (1, ""), "a run that can't begin ends it with the reason"
    assert serving.processes() == []
    serving.runs.unlink()
    runner = serving.start("--idle")
    api = serving.api(runner)
    assert ended(serving.start("--idle")) == (1, "")
    assert f"process {runner.pid}" in serving.stderr
    assert api.status()["run"]["state"] == "none"
    started = api.command("run.start", {"name": "by hand"})
    assert started["run_id"].endswith("_by-hand")
    api.command("server.shutdown")
    assert ended(runner)[0] == 0
    assert serving.processes() == []


def test_next_runner_takes_over_what_a_killed_one_left_each_exactly_once(serving: Serving) -> None:
    first = serving.start("--json", *ALL)
    before, pids = serving.running(first)
    run = before.status()["run"]
    crash(first)
    steps = run["env_steps"]

    second = serving.start("--until-done", "--json", "--set", "stop.env_steps=1")
    after, taken_over = serving.running(second)

    assert taken_over == pids
    assert after.status()["run"]["id"] == run["id"]
    until_now(lambda: after.status()["run"]["env_steps"] > steps)
    assert after.status()["run"]["seconds"] > run["seconds"]
    events = after.command("history.events")["events"]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert "taken over" in events[-1]["what"]
    crash(second)
    psutil.Process(pids["trainer"]).kill()

    third = serving.start("--until-done", "--json", "--set", "stop.env_steps=1")
    after, restarted = serving.running(third)

    assert restarted["trainer"] != pids["trainer"], "what died with its runner is started by the next"
    assert restarted | {"trainer": 0} == pids | {"trainer": 0}
    after.command("run.stop")
    code, output = ended(third)
    assert (code, json.loads(output)["reached"]) == (1, "stopped"), "stopped by hand is not done"
    assert serving.processes() == []
    assert len(list(serving.runs.iterdir())) == 1


def test_a_run_that_was_being_ended_is_ended_by_the_next_runner(serving: Serving) -> None:
    first = serving.start()
    before, pids = serving.running(first)
    run = Path(before.status()["run"]["dir"])
    (run / "deaf").touch()

    def ask_to_stop() -> None:
        with contextlib.suppress(SoulsGuiError):  # the answer never comes: the trainer does not end
            before.command("run.stop")

    threading.Thread(target=ask_to_stop, daemon=True).start()
    until_now(lambda: before.status()["run"]["state"] == "saving")
    crash(first)
    (run / "deaf").unlink()

    api = serving.api(serving.start("--idle"))

    until_now(lambda: api.status()["run"]["state"] == "stopped")
    assert api.status()["run"]["reached"] == "stopped"
    left = {process.pid for process in serving.processes()}
    assert left & set(pids.values()) == {pids["redis"]}
    assert [one["name"] for one in api.status()["services"] if one["state"] != "stopped"] == ["redis"]


def test_services_stay_where_a_server_moves_and_a_dead_run_is_resumed(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATIENT, "1")
    first = serving.start()
    api, pids = serving.running(first)
    run = api.status()["run"]
    crash(first)
    port = free_port()

    second = serving.start("--idle", "--set", f"redis.port={port}")
    api, after = serving.running(second)

    assert api.status()["server"]["url"].endswith(f":{port}")
    assert api.status()["run"]["id"] == run["id"]
    assert after == pids  # they talk over the socket of Redis, which stays where it was
    steps = api.status()["run"]["env_steps"]
    until_now(lambda: api.status()["run"]["env_steps"] > steps)
    crash(second)
    kill_all(after.values())

    words = ("--set", "stop.window=7", "--set", f"control.port={(port := free_port())}")
    api, _ = serving.running(serving.start("--resume", "latest", *words))

    interrupted, resumed = api.command("history.events")["events"][-2:]
    assert "interrupted" in interrupted["what"]
    assert run["id"] in interrupted["remedy"]
    assert resumed["what"] == f"Run {run['id']} was resumed with stop.window = 7 (was 20)"
    assert api.status()["run"]["id"] == run["id"]
    assert ControlFile.load(serving.control).port == port


def test_a_terminal_that_is_held_does_not_hold_the_runner(serving: Serving) -> None:
    screen, inner = os.openpty()
    runner = serving.start("--idle", stderr=inner)
    os.close(inner)
    api = serving.api(runner)
    shown = bytearray()
    until_now(lambda: shown.extend(os.read(screen, 4096)) or b"no run is active" in shown)
    os.write(screen, b"\x13")  # Ctrl+S
    run = api.command("run.start")["run_id"]
    until_now(lambda: api.status()["run"]["seconds"] > 2.0)
    assert api.status()["run"]["id"] == run
    api.command("server.shutdown")
    until_now(lambda: not serving.control.exists())
    os.write(screen, b"\x11")  # Ctrl+Q: what is summed up may be written
    assert ended(runner)[0] == 0
    os.close(screen)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="shows the files of a process")
def test_a_server_without_standard_streams_serves_and_keeps_their_numbers_free(serving: Serving) -> None:
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    runner = serving.start("--idle", within=closed)
    api = serving.api(runner)
    for number in range(3):
        assert str(Path(f"/proc/{runner.pid}/fd/{number}").readlink()) == os.devnull
    api.command("server.shutdown")
    assert runner.wait(LIMIT_S) == 0


@pytest.mark.skipif(os.name == "nt", reason="a profile of Windows is private as it is")
def test_nobody_else_may_write_in_the_folders_of_a_server_whatever_its_terminal_allows(
    serving: Serving,
) -> None:
    for told in (False, True):
        runner = serving.start("--idle", within=["sh", "-c", 'umask 0; exec "$@"', "sh"])
        serving.api(runner).command("server.shutdown")
        assert ended(runner)[0] == 0
        assert ("chmod go-w" in serving.stderr) is told
        made = (serving.folder / "config", serving.folder / "data")
        assert [oct(path.stat().st_mode & 0o777) for path in made] == ["0o700", "0o707" if told else "0o700"]
        others = [path for folder in made for path in folder.rglob("*") if path.lstat().st_mode & 0o022]
        assert [path for path in others if path.is_dir() or path.is_file()] == []
        made[1].chmod(0o707)


def test_a_goal_counts_only_when_it_is_saved() -> None:
    for reached, done in (("env_steps", True), ("mean_return", True), ("stopped", False), ("failed", False)):
        record = RunRecord.model_validate({"id": "r", "reached": reached})
        assert is_done(record, "") is done
        assert not is_done(record, "the last 3 updates (768 steps) are lost: no space left")


def test_nobody_plays_when_all_clients_were_given_up_and_nobody_else_is_known() -> None:
    failed = service("client-1", "failed", outcome="exit 1 after 3 s")
    others = [client("client-1", "lost"), client("inference-1")]
    assert nobody_plays([failed, service()], lambda: others).endswith(
        "client-1 was given up: exit 1 after 3 s"
    )
    for services, clients in (
        ([failed, service("client-2", "backoff")], others),
        ([failed], [*others, client("gamer-1", "lost")]),  # it may come back
        ([service()], []),
    ):
        assert nobody_plays(services, lambda clients=clients: clients) == ""
