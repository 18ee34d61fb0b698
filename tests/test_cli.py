import argparse
import io
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from soulsgui.cli import joined, remote
from soulsgui.cli.inviting import take_up
from soulsgui.cli.main import run
from soulsgui.cli.parser import GROUPS, make_parser, parse
from soulsgui.config.layers import preset_names
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.gui.shell.instance import take_opened
from soulsgui.runner.audit import AUDIT_FILE, AuditLog
from soulsgui.runner.events import EventLog
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.trash import Bin
from soulsgui.system import free_port, is_private, process_identity
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.connection import Address
from soulsgui.wire.control import (
    ApiError,
    ClientStatus,
    ControlFile,
    ErrorCode,
    Job,
    NewInvitation,
    RunStatus,
    ServiceParams,
    Status,
)
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import command_line
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until_now
from tests.runner.fake_program import save
from tests.runner.joining import SECRET, invitation_to
from tests.states import checkpoint

HIDDEN = ("probe", "evaluation", "worker", "learner", "job")

INVITED = invitation_to(("127.0.0.1", 1))
"""An invitation of gamer to a server that nobody runs."""


class Terminal:
    """Types commands in this process, with its folders below one of the test."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.config, self.data, self._capsys = folder / "config" / "config.yaml", folder / "data", capsys
        self.places = ["--config-dir", str(folder / "config"), "--data-dir", str(self.data)]

    def write(self, text: str | bytes) -> None:
        """Write the settings of the user."""
        self.config.parent.mkdir()
        self.config.write_bytes(text if isinstance(text, bytes) else text.encode())

    def type(self, words: str, *more: object) -> tuple[int, str, str]:
        """Return the exit code, and what stands on standard output and on standard error."""
        self._capsys.readouterr()
        try:
            code = run([*shlex.split(words), *map(str, more), *self.places])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *self._capsys.readouterr()

    def out(self, words: str, *more: object, code: int = 0) -> str:
        found, out, err = self.type(words, *more)
        assert found == code, err
        return out

    def err(self, words: str, *more: object, code: int = 2) -> str:
        found, _, err = self.type(words, *more)
        assert found == code, err
        return err

    def json(self, words: str, code: int = 0) -> Any:
        return json.loads(self.out(f"{words} --json", code=code))


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path, capsys)


@pytest.mark.processes
def test_an_environment_is_examined_and_reported(terminal: Terminal) -> None:
    lines = terminal.out("env check Acrobot-v1").splitlines()
    assert lines[0] == "Acrobot-v1: works"
    assert "  takes        one of 3 actions" in lines
    report = terminal.json("env check --set env.id=Acrobat-v1", code=1)
    assert (report["ok"], report["spaces"]) == (False, None)
    assert "Acrobot-v1" in report["problems"][0]
    assert report["places"] == {"env.id": "--set"}
    assert "set          env.id in the argument ID" in terminal.out("env check Acrobat-v1", code=1)
    terminal.write("env:\n  id: Acrobat-v1\n  wrappers: [Nope]\n")
    said = terminal.out("env check", code=1)
    assert "problem      env.wrappers, entry 1: There is no wrapper “Nope”" in said
    assert "set          env.id in config.yaml, line 2" in said
    assert "set          env.wrappers in config.yaml, line 3" in said


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of every command a person may type."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                if name not in HIDDEN:
                    yield from every_parser(below)


class FakeRunner:
    """A runner that notes what is asked of it."""

    control = ControlFile(port=1, token="t", server_id="server-1", pid=1)

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] | Exception = {"run_id": "r1", "run_dir": "/r1"}
        self.told = Status(run=RunStatus(algorithm="ppo"))
        self.states: list[RunStatus] = []
        self.jobs: list[Job | BaseException] = []

    def command(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((name, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def job(self, _job_id: str) -> Job:
        found = self.jobs.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def status(self) -> dict[str, Any]:
        run = self.states.pop(0) if self.states else self.told.run
        return self.told.model_copy(update={"run": run}).model_dump(mode="json")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    made = FakeRunner()
    monkeypatch.setattr(remote, "runner_of", lambda _arguments: made)
    for module in ("inviting", "sweep"):
        monkeypatch.setattr(f"soulsgui.cli.{module}.runner_of", lambda _arguments: made)
    return made


def add_run(terminal: Terminal, name: str = "one", **fields: Any) -> RunFolder:
    library = Library(terminal.data / "runs")
    made = library.create("one", 1_000_000.0)
    record = RunRecord(id=made.run_id, name=name, created=1.0, state="stopped")
    library.write_record(made, record.model_copy(update=fields))
    return made


def test_folders_and_settings_stand_anywhere() -> None:
    for words in (
        "--data-dir d status --set a=1 --json --config-dir=c --set=b=2",
        "status --json --data-dir d --config-dir c --set a=1 --set b=2",
        "--set a=1 --set b=2 --config-dir c --data-dir d status --json",
    ):
        found = parse(words.split())
        assert (found.config_dir, found.data_dir) == (Path("c"), Path("d"))
        assert (found.assignments, found.as_json) == (["a=1", "b=2"], True)
    assert (parse(["status"]).data_dir, parse(["status"]).assignments) == (None, [])


@pytest.mark.skipif(sys.platform == "win32", reason="every name is text there")
def test_a_folder_whose_name_is_no_text_is_refused(terminal: Terminal) -> None:
    for option in ("--data-dir", "--config-dir"):
        terminal.places = [option, os.fsdecode(b"/tmp/n\xff")]
        said = "The name of the folder /tmp/n\ufffd is not valid UTF-8.\nChoose another: " + option
        assert said in terminal.err("serve --idle")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "The system gives this process no more memory.\n"),
        (RuntimeError("can't start new thread"), "The system gives this process no more threads.\n"),
    ],
)
def test_limits_of_the_system_are_told_in_words(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def limited(*_: object) -> None:
        raise error

    monkeypatch.setattr("soulsgui.cli.local.read_journal", limited)
    assert terminal.err("events", code=1).startswith(f"{said}End other programs, or raise its limits")
    monkeypatch.setattr("soulsgui.cli.local.read_journal", lambda *_: [][0])
    with pytest.raises(IndexError):
        terminal.out("events")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # the command line
        ("fly", "“fly” is not a command. There are: gui, serve,"),
        ("serv", "“serv” is not a command. Did you mean serve?"),
        ("run strat", "“strat” is not a command. Did you mean start?"),
        ("prob", "“prob” is not a command."),
        ("completion", "“completion” is not a command. There are: gui, serve,"),
        ("Check", "“Check” is not a command. Did you mean checkpoints?"),
        ("run fly", "There are: queue, start, resume, stop, pause, continue."),
        (
            "status --jsn",
            "soulsgui status: error: --jsn is not an argument of this command. Did you mean --json?",
        ),
        ("status extra", "extra is not an argument of this command. See: soulsgui status --help"),
        ("clients pause", "NAME is missing."),
        ("trainer", "--run is missing."),
        ("serve --local-clients many", "--local-clients should be a whole number, not 'many'."),
        ("evaluate --episodes x", "--episodes should be a whole number, not 'x'."),
        ("client --rate fast", "--rate should be a number, not 'fast'."),
        ("logs trainer -n", "-n needs a value after it."),
        ("shutdown all", "what should be one of 'clients', 'run', 'server', not 'all'."),
        ("call NOPE", "There is no command “NOPE”.\nAll of them: docs/api.md"),
        ("call run.strat", "Did you mean run.start, "),
        ("call status.get", "Did you mean soulsgui status? "),
        ("call server.hello {", "The parameters are not JSON: look at character 2."),
        *(
            (f"call server.hello {word}", "The parameters are not a JSON object.")
            for word in ("[1]", "3", "'\"x\"'")
        ),
        # settings
        ("config set ppo.gamma=2", "config set: ppo.gamma = 2: should be less than or equal to 1."),
        ("config check --set ppo.gamma=abc", "ppo.gamma = 'abc': should be a number."),
        ("config check --set redis.lan=[1]", "should be true or false."),
        ("config check --set network.hidden_sizes=3", "should be a list, such as [64, 64]."),
        ("config check --set env.kwargs=3", "should be a map, such as {key: value}."),
        # join
        ("join pauze", "Did you mean: soulsgui join pause?"),
        ("join gamer-01", "There is no invitation in gamer-01"),
        ("join --here gamer-01", "--here"),
        ("join --for 1h", "--for and --after-episode only work with `join pause`"),
        ("join continue --after-episode", "--for and --after-episode only work with `join pause`"),
        ("join stop --json", "--json only works with `join status`."),
        ("join pause --for 3q", "a number and its unit, s, m (or min) or h, up to a week"),
        ("join pause --for 200h", "up to a week"),
        # services in the foreground
        ("client --server somewhere", "HOST:PORT"),
        ("client --server 127.0.0.1:0", "HOST:PORT"),
        ("client --server 8.8.8.8:6379", "only servers on this machine"),
        ("client --server 127.0.0.1:6379", "--config-dir"),
        ("client --server redis://127.0.0.1:6379", "--config-dir"),
        ("client --server rediss://127.0.0.1:6379", "--config-dir"),
        ("client --name 'two words'", "“two words” is not a client name"),
        ("client --num-envs 0", "--num-envs"),
        ("client --episodes -1", "--episodes"),
        ("client", "soulsgui serve"),
        ("client gamer-01", "There is no invitation in gamer-01"),
        ("client soulsgui://join/abc", "The link is damaged or cut off"),
        ("client soulsgui://watch/abc", "The link is not an invitation"),
        (f"client {INVITED.link} --server 127.0.0.1:1", "An invitation says where the server is"),
        (f"client {INVITED.link} --server-file 127.0.0.1:1", "An invitation says where the server is"),
        # options of serve that contradict each other
        ("serve --until-done", "needs a goal"),
        ("serve --idle --until-done", "--idle"),
        ("serve --idle --resume latest", "--idle"),
        ("serve --resume latest --preset cartpole_ppo", "--resume"),
        ("trainer --run nowhere", "is not a run"),
        ("telemetry --run nowhere", "is not a run"),
    ],
)
def test_wrong_use_is_code_2_and_said_in_words_of_our_own(terminal: Terminal, words: str, said: str) -> None:
    code, out, err = terminal.type(words)
    assert (code, out) == (2, "")
    assert said in err
    assert "probe" not in err
    assert not terminal.data.exists()


def test_a_setting_of_another_algorithm_is_said_to_have_no_effect(
    terminal: Terminal, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.runner.headless.serve", lambda _folders, _options: 0)
    said = "dqn.agent has no effect while algorithm is ppo: set algorithm=dqn, too.\n"
    for words in ("serve", "run start", "config show", "config check"):
        assert said in terminal.err(f"{words} --set dqn.agent=iqn", code=0)
    for words in ("serve", "config show"):
        assert terminal.err(f"{words} --set dqn.agent=iqn --set algorithm=dqn", code=0) == ""
    assert said in terminal.err("config set dqn.agent=iqn", code=0)


@pytest.mark.parametrize("group", ["runs", "clients", "config", "run", "checkpoints"])
def test_a_group_alone_shows_its_commands(terminal: Terminal, group: str) -> None:
    code, out, err = terminal.type(group)
    assert (code, out) == (2, "")
    assert f"usage: soulsgui {group}" in err
    assert "COMMAND" in err
    assert "required" not in err


@pytest.mark.parametrize("parser", list(every_parser(make_parser())), ids=lambda parser: parser.prog)
def test_every_option_says_what_it_does_and_its_default(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        assert action.help, f"{parser.prog}: {action.dest}"
        if action.option_strings and not action.required and action.dest not in ("help", "version"):
            assert "default" in action.help, f"{parser.prog}: {action.dest}"


def test_every_example_can_be_typed() -> None:
    shown = set()
    for parser in every_parser(make_parser()):
        for line in (parser.epilog or "").splitlines()[1:]:
            program, *words = shlex.split(line)
            assert (program, parse(words).handler) == ("soulsgui", parser.get_default("handler")), line
            shown.add(parser.prog.removeprefix("soulsgui "))
    assert shown >= {"serve", "run start", "invite", "join", "evaluate", "config set"}


@pytest.mark.parametrize("words", ["--help", "serve --help", "run --help", "run start -h", "--version"])
def test_help_is_code_0_and_shows_every_command_in_one_group(terminal: Terminal, words: str) -> None:
    out = terminal.out(words)
    assert "soulsgui" in out
    assert "probe" not in out
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(make_parser().shown)
    if words == "--help":
        assert all(f"\n{title}:\n  {names[0]} " in out for title, names in GROUPS.items())


WITH_A_RUNNER = ("status", "status --json", "control --json", "call server.hello", "run start", "run stop")
WITH_A_RUNNER += ("quicksave", "clients list", "clients pause a", "shutdown", "revoke gamer")


def test_a_job_is_waited_for_and_cancelled_by_whoever_stops_waiting(
    terminal: Terminal, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(**changes: Any) -> Job:
        return Job(id="j1", command="checkpoint.verify", state="running").model_copy(update=changes)

    runner.answer = told().model_dump(mode="json")
    runner.jobs = [told(part=0.5, progress="reading"), told(state="done", result={"checkpoints": []})]
    shown: list[str] = []
    monkeypatch.setattr(remote, "show_progress", shown.append)
    monkeypatch.setattr(remote, "_LOOK_EVERY_S", 0.0)
    assert terminal.json("checkpoints verify") == []
    assert " 50% reading" in shown
    runner.jobs = [told(state="failed", error=ApiError(code=ErrorCode.NOT_FOUND, message="gone"))]
    assert terminal.err("checkpoints verify", code=1) == "gone\n"
    runner.jobs = [told(state="cancelled")]
    assert "was cancelled" in terminal.err("checkpoints verify", code=1)
    runner.jobs = [KeyboardInterrupt()]
    terminal.err("checkpoints verify", code=1)
    assert runner.asked[-1] == ("job.cancel", {"job": "j1"})


@pytest.mark.parametrize("words", WITH_A_RUNNER)
def test_without_a_runner_is_code_3_and_silence_on_standard_output(terminal: Terminal, words: str) -> None:
    code, out, err = terminal.type(words)
    assert (code, out) == (3, "")
    assert "soulsgui serve" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("saved", "printed", "explained"),
    [
        ({"memory": True}, ", with its replay memory)", ""),
        ({"memory_in_file": True}, "(7 steps, 9 bytes)", "only be used if training stops right then"),
        ({}, "(7 steps, 9 bytes)", "the algorithm of this run uses none"),
    ],
)
def test_a_quicksave_says_what_there_is_of_the_replay_memory(
    terminal: Terminal, runner: FakeRunner, saved: dict[str, bool], printed: str, explained: str
) -> None:
    info = checkpoint(path="/c", env_steps=7, size_bytes=9, **saved)
    runner.answer = {"checkpoint": info.model_dump(mode="json")}
    code, out, err = terminal.type("quicksave --buffer")
    assert (code, out.startswith("saved /c "), out.rstrip().endswith(printed)) == (0, True, True)
    assert explained in err
    assert bool(explained) == bool(err)


def test_five_mistakes_are_refused_with_place_reason_and_nearest_key(terminal: Terminal) -> None:
    terminal.write("seeed: 3\nppo:\n  gamma: 1.5\n  n_stepz: 4\nenv:\n  num_envs: lots\n")
    for words in ("config check", "serve", "config show", "serve --until-done"):
        code, out, err = terminal.type(f"{words} --set clients.locale=3")
        assert (code, out) == (2, "")
        for said in (
            "config.yaml, line 1: seeed",
            "Did you mean seed?",
            "config.yaml, line 3: ppo.gamma = 1.5",
            "less than or equal to 1",
            "config.yaml, line 4: ppo.n_stepz",
            "Did you mean ppo.n_steps?",
            "config.yaml, line 6: env.num_envs = 'lots'",
            "--set: clients.locale",
            "Did you mean clients.local?",
        ):
            assert said in err
    assert not terminal.data.exists()
    assert len(terminal.json("config check", code=2)["problems"]) == 4


def test_config_is_set_shown_checked_and_compared(terminal: Terminal) -> None:
    said = terminal.out("config set seed=9 ppo.gamma=0.5")
    assert "seed, ppo.gamma: takes effect with the next new run" in said
    terminal.out("config check")
    shown = terminal.json("config show --set env.num_envs=7")
    assert (shown["seed"], shown["ppo"]["gamma"], shown["env"]["num_envs"]) == (9, 0.5, 7)
    assert {one["key"]: one["value"] for one in terminal.json("config diff")} == {"seed": 9, "ppo.gamma": 0.5}
    said = terminal.out("config show --preset lunarlander_ppo")
    assert "LunarLander" in said
    assert "learner.threads: 0  # new run or resume\n" in said
    said = terminal.out("config show --set algorithm=dqn --set dqn.agent=r2d2 --set dqn.batch_size=320")
    assert 'network.recurrent: "lstm"  # new run, the default for r2d2\n' in said
    assert "dqn.batch_size: 320  # new run\n" in said
    said = terminal.out("config show ppo --set ppo.clip=0.3")
    assert "ppo.clip: 0.3  # next round\n" in said
    assert all(line.startswith("ppo.") for line in said.splitlines())
    assert terminal.json("config show ppo") == shown["ppo"]
    assert terminal.json("config show ppo.gamma") == 0.5
    said = terminal.err("config show dqnn")
    assert "“dqnn” is neither a setting nor a section.\nDid you mean dqn?" in said
    assert "cartpole_ppo" in terminal.err("config show --preset cartpol_ppo")
    terminal.err("config set seed=-1")
    terminal.err("config set seeed=1")
    said = terminal.err("config set seed=8 ppo.gamma")
    assert "“ppo.gamma” has no value" in said
    assert "soulsgui config set KEY=VALUE" in said
    assert "mistake" not in said
    assert "seed: 9" in terminal.config.read_text()
    said = terminal.out("config set redis.lan=true stop.window=9")
    at_once = "while it runs: soulsgui server set --lan ..."
    assert said.endswith(f"redis.lan: takes effect when the server is restarted; {at_once}\n")
    assert "stop.window: takes effect with the next new run; for the active run: " in said
    terminal.out("config set alerts.webhook=https://hooks.example.org/secret")
    for words in ("config diff", "config show alerts", "config show alerts.webhook"):
        said = terminal.out(words)
        assert "alerts.webhook" in said
        assert "example" not in said


def test_a_configuration_of_soulsai_is_written_into_the_file(terminal: Terminal, tmp_path: Path) -> None:
    terminal.write("# mine\nseed: 9\nppo:\n  gamma: 0.5  # patient\n")
    theirs = tmp_path / "config_d.yaml"
    theirs.write_text(
        "algorithm: PPO\ngamma: 0.9\nredis_address: redis\nppo:\n  clip_range: 0.1\n  n_steps: 0\n"
    )
    said = terminal.out("config import-soulsai", theirs)
    for line in (
        'algorithm: "ppo"  # algorithm',
        "normalize.rewards: false  # SoulsAI always does that",
        "ppo.gamma: 0.9  # gamma",
        "ppo.clip: 0.1  # ppo.clip_range",
        "not taken over:",
        "  redis_address: SoulsGUI starts a Redis of its own (or uses redis.url); invitations say where.",
        "  ppo.n_steps: ppo.n_steps should be greater than or equal to 1 (in steps per environment).",
        f"written to {terminal.config}",
    ):
        assert f"{line}\n" in said
    text = terminal.config.read_text()
    assert "# mine\nseed: 9\nppo:\n  gamma: 0.9  # patient\n" in text
    assert "n_steps" not in text
    assert "there is no such file" in terminal.err("config import-soulsai", tmp_path / "gone.yaml")
    theirs.write_text("services: {redis: {image: redis}}\n")
    assert "holds no setting of SoulsAI" in terminal.err("config import-soulsai", theirs)
    assert terminal.config.read_text() == text
    theirs.write_text("dqn:\n  agent: {kwargs: {lr: 0.1}}\n")
    assert "has no effect while algorithm is ppo" in terminal.type("config import-soulsai", theirs)[2]


def test_presets_are_listed_by_the_names_that_one_types(terminal: Terminal) -> None:
    named = {one["name"]: one["title"] for one in terminal.json("config presets")}
    assert list(named) == preset_names()
    said = terminal.out("config presets")
    assert all(f"{name} " in said and title in said for name, title in named.items())


def test_a_resume_that_can_not_be_is_said_before_anything_starts(terminal: Terminal) -> None:
    assert "no run yet" in terminal.err("serve --resume latest --until-done", code=1)
    made = add_run(terminal)
    Library(made.root.parent).write_settings(made, Settings())
    for words, said in (
        ("seed=5 --set stop.window=3", "seed: can't change in a resumed run"),
        ("learner.processes=2 --set learner.compile=on", "learner.compile = 'on': does not work with"),
        ("stop.windw=3", "Did you mean stop.window?"),
    ):
        assert said in terminal.err(f"serve --resume latest --set {words}")
    assert not (terminal.data / "server").exists()


def test_runs_checkpoints_logs_and_events_are_read_without_a_runner(terminal: Terminal) -> None:
    assert "no run yet" in terminal.err("checkpoints list", code=1)
    assert terminal.json("runs list") == []
    made = add_run(terminal)
    save(made.checkpoint, made, "current", 500)
    (made.logs / "trainer.log").write_text("2026-11-20 10:00:00.000 INFO t: one\ntwo\n")
    (terminal.data / "server" / "logs").mkdir(parents=True)
    EventLog(terminal.data / "server" / "events.jsonl", lambda _: None).add("error", "it broke", "why")

    assert [one["id"] for one in terminal.json("runs list")] == [made.run_id]
    (checkpoint,) = terminal.json("checkpoints list")
    assert (checkpoint["id"], checkpoint["valid"], checkpoint["env_steps"]) == ("checkpoint", True, 500)
    wanted = {"kind", "path", "model_id", "updates", "score", "created", "size_bytes", "note"}
    assert wanted <= set(checkpoint)
    save(made.best_model, made, "best", 400, score=9.0, scored_by="evaluation")
    save(made.checkpoint, made, "current", 600, score=3.0, scored_by="training")
    heads, newest, best = terminal.out("checkpoints list").splitlines()
    assert heads.startswith("CHECKPOINT  SAVED ")
    assert newest.index(" 3.0 ") == heads.index("TRAINING RETURN") - 1
    assert best.index(" 9.0 ") == heads.index("EVALUATION") - 1
    assert terminal.out("logs trainer") == "2026-11-20 10:00:00 INFO t: one\ntwo\n"
    assert "two" in terminal.out("logs", ""), "those of all services"
    assert "trainer" in terminal.err("logs oven", code=1)
    assert terminal.json("events")[0]["what"] == "it broke"
    assert terminal.out("events --since 1") == ""
    assert terminal.out("events").count("\n") == 1
    assert terminal.out("audit") == "No command has changed anything yet.\n"
    for folder in ("server", "client"):
        (terminal.data / folder).mkdir(exist_ok=True)
        log = AuditLog(terminal.data / folder / AUDIT_FILE, lambda _: None)
        log.end(log.begin("service.stop", ServiceParams(name=folder), "curl/8", "127.0.0.1:5", "curl (7)"))
    assert 'service.stop name="server"  curl/8  curl (7)  done\n' in terminal.out("audit")
    assert [one["params"] for one in terminal.json("audit -n 1")] == ['name="client"']
    heads, row = terminal.out("runs list").splitlines()
    assert heads.split() == ["RUN", "NAME", "STATE", "STEPS", "DURATION", "SIZE"]
    assert row.index(" stopped ") == heads.index("STATE") - 1
    thrown = Bin(terminal.data / "trash", Library(made.root.parent))
    thrown.throw_checkpoint(made, thrown.runs.checkpoints.get(made, "best_model"), goes_on=False)
    assert [one["id"] for one in terminal.json("checkpoints list --trashed")] == ["best_model"]
    thrown.throw_run(made)
    assert terminal.json("runs list") == []
    assert [one["id"] for one in terminal.json("runs list --trashed")] == [made.run_id]


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("status", {"torch", "numpy", "aiohttp", "redis", "asyncio", "gymnasium", "psutil", "ruamel.yaml"}),
        ("runs list", {"torch", "aiohttp", "gymnasium", "matplotlib"}),
        ("config check", {"torch", "aiohttp", "gymnasium", "matplotlib"}),
        ("serve --resume x --until-done", {"torch", "gymnasium", "matplotlib"}),
        ("client", {"torch", "aiohttp", "matplotlib"}),
        ("client nowhere.soulsgui", {"torch", "aiohttp", "matplotlib", "gymnasium"}),
    ],
)
def test_commands_import_what_they_need_alone(tmp_path: Path, words: str, heavy: set[str]) -> None:
    text = (
        "import sys\nfrom soulsgui.cli.main import run\n"
        f"run({words.split()!r} + ['--data-dir', {str(tmp_path)!r}])\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert set(done.stderr.splitlines()[-1].split()) & heavy == set()


def test_probe_keeps_standard_output_for_its_report(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "print('hello from a noisy package')\n"
        "gymnasium.register('Noisy-v0', CartPoleEnv)\n"
    )
    learner = {"algorithm": "sac", "network": "mlp", "channels": "auto"}
    with probing(tmp_path, "noisy:Noisy-v0", learner) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        *doings, last = (json.loads(line) for line in process.stdout)
        said = process.stderr.read()
        assert process.wait(LIMIT_S) == 0
    first = ["its import", "being made", "reset()", "a second reset()", "step 1"]
    assert [one["doing"] for one in doings][:5] == first
    report = last["report"]
    assert report["ok"]
    assert report["misfit"]["message"].startswith("sac chooses numbers within bounds; this environment")
    assert "noisy package" in said


def test_a_probe_ends_with_who_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import gymnasium, time\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Stuck(CartPoleEnv):\n    def reset(self, **_): time.sleep(1e6)\n"
        "gymnasium.register('Stuck-v0', Stuck)\n"
    )
    with probing(tmp_path, "stuck:Stuck-v0", {}) as process:
        assert process.stdout is not None
        assert any('"reset()"' in line for line in process.stdout)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT_S) == 1


@contextmanager
def probing(folder: Path, env_id: str, learner: dict[str, Any]) -> "Iterator[subprocess.Popen[str]]":
    """Let an environment of a module in a folder be examined."""
    wanted = {"id": env_id, "kwargs": {}, "wrappers": [], "learner": learner}
    with subprocess.Popen(
        [sys.executable, "-m", "soulsgui", "probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{Path.cwd()}:{folder}", "PATH": ""},
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(wanted | {"seconds": 10, "step_s": 0, "delay_s": 0}) + "\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


def test_a_closed_standard_output_is_no_failure(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert run(["config", "show", *terminal.places]) == 0


def test_mistakes_that_json_does_not_know_are_listed_all_the_same(terminal: Terminal) -> None:
    terminal.write("env:\n  kwargs: {x: 2024-01-01, y: .nan}\n")
    assert terminal.json("config check", code=2)["problems"][0]["key"] == "env.kwargs"


def test_only_clients_that_are_there_are_asked_to_stop(terminal: Terminal, runner: FakeRunner) -> None:
    clients = [
        ClientStatus(id="here", name="here", state="online", age_s=0.5, invited=1.0),
        ClientStatus(id="client-1", name="client-1", state="joining", local=True),
        ClientStatus(id="expected", name="expected", state="joining", invited=1.0),
        ClientStatus(id="sent-away", name="sent-away", state="revoked", age_s=3.0, invited=1.0),
        ClientStatus(id="away", name="away", state="left", age_s=3.0),
    ]
    runner.told = Status(clients=clients)
    terminal.out("shutdown clients")
    assert runner.asked == [("clients.stop", {"client": name}) for name in ("here", "client-1")]


@pytest.mark.parametrize("word", ["gamer-01", "Living room"])
def test_a_client_is_meant_by_its_id_or_its_name(terminal: Terminal, runner: FakeRunner, word: str) -> None:
    clients = [ClientStatus(id="b", name="b"), ClientStatus(id="gamer-01", name="Living room")]
    runner.told = Status(clients=clients)
    terminal.out("clients pause", word)
    assert runner.asked == [("clients.pause", {"client": "gamer-01"})]


def test_all_in_a_bin_is_removed_for_good_only_once_that_is_agreed_to(
    terminal: Terminal, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.answer = {"freed_bytes": 5}
    for words, typed in (("runs purge", "\n"), ("checkpoints purge", ""), ("runs purge", "no\n")):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert "nothing was deleted" in terminal.err(words)
    assert runner.asked == []
    for words in ("runs purge one", "checkpoints purge --yes", "runs purge --yes"):
        assert "are free now" in terminal.out(words)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    terminal.out("runs purge")
    assert [name for name, _ in runner.asked] == ["runs.purge", "checkpoint.purge", *["runs.purge"] * 2]


def test_what_a_file_can_not_be_written_to_is_refused_before_the_work(
    terminal: Terminal, runner: FakeRunner, tmp_path: Path
) -> None:
    for words in ("runs export --output", "checkpoints export best --format onnx --output"):
        assert f"Give a file in it: --output {tmp_path}" in terminal.err(words, tmp_path)
        assert "There is no folder" in terminal.err(words, tmp_path / "none" / "a.zip")
    assert "is a folder: runs are imported from" in terminal.err("runs import", tmp_path)
    assert "There is no file" in terminal.err("runs import", tmp_path / "none")
    assert runner.asked == []


def test_a_server_is_looked_for_at_another_address_first(terminal: Terminal, tmp_path: Path) -> None:
    INVITED.save(path := tmp_path / "a.soulsgui")
    saved = SavedInvitations(Folders(tmp_path / "config", terminal.data))
    moved = take_up(parse(["join", str(path), "--address", "router.example.org", *terminal.places]))
    assert moved == saved.find(INVITED.server_id)
    assert moved.addresses == (("router.example.org", INVITED.addresses[0][1]), *INVITED.addresses)
    assert moved.found_at("router.example.org") == moved
    assert "not the address of a server" in terminal.err(f"join {path} --address a:b")
    assert "only works with an invitation" in terminal.err("join --address router")


def test_an_invitation_is_good_for_its_own_name_alone(terminal: Terminal, tmp_path: Path) -> None:
    path, saved = tmp_path / "a.soulsgui", SavedInvitations(Folders(tmp_path / "config", terminal.data))
    INVITED.save(path)
    saved.choose(INVITED.model_copy(update={"server_id": "gone"}))  # which is no news where another is named
    for words in (f"client {path}", f"join {path}", "join"):
        if words == "join":  # without one it keeps to the one of last time
            assert not (tmp_path / "config" / "servers").exists()
            saved.keep(INVITED)
            saved.choose(INVITED)
        assert "for gamer, not for another" in terminal.err(f"{words} --name another")


def test_a_new_invitation_is_taken_over_by_what_plays_for_the_same_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = FakeRunner()
    monkeypatch.setattr(joined, "join_of", lambda _arguments: runner)
    others = (INVITED.model_copy(update={name: "another"}) for name in ("server_id", "client"))
    for before in (None, *others):
        assert not joined.takes_over(parse(["join"]), before, INVITED)
    assert joined.takes_over(parse(["join"]), INVITED, INVITED)
    assert runner.asked == [("servers.join", {"invitation": INVITED.link})]


def test_an_invitation_overwrites_only_an_older_one_of_its_client(terminal: Terminal, tmp_path: Path) -> None:
    own, other, foreign = (tmp_path / name for name in ("own.soulsgui", "other.soulsgui", "thesis.tex"))
    INVITED.save(own)
    INVITED.model_copy(update={"client": "other"}).save(other)
    foreign.write_text("years of work")
    for path in (other, foreign):
        said = terminal.err("invite gamer --file", path)
        assert f"{path} exists and is not an earlier invitation of gamer" in said
    assert f"{tmp_path} is a folder" in terminal.err("invite gamer --file", tmp_path)
    assert "There is no folder" in terminal.err("invite gamer --file", tmp_path / "no" / "where")
    terminal.err("invite gamer --file", own, code=3)  # no runner is there to be asked: nothing is written
    terminal.err("invite 'two words'")
    assert foreign.read_text() == "years of work"
    assert Invitation.load(own) == INVITED


@pytest.mark.parametrize("server_id", ["server-1", "server-2"])
def test_the_file_of_another_server_is_left_alone_and_an_own_one_replaced_aloud(
    terminal: Terminal, tmp_path: Path, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, server_id: str
) -> None:
    made = INVITED.model_copy(update={"server_id": server_id, "secret": "another-secret-for-tests"})
    told: dict[str, Any] = {"client": "gamer", "username": "user-gamer", "addresses": [("127.0.0.1", 1)]}
    told |= {"lan": True, "secret": made.secret, "link": made.link, "file_text": made.file_text}
    runner.answer = NewInvitation(**told).model_dump(mode="json")
    runner.control = runner.control.model_copy(update={"server_id": server_id})
    path = tmp_path / "gamer.soulsgui"
    INVITED.save(path)
    monkeypatch.chdir(tmp_path)
    code, _, said = terminal.type("invite gamer")
    if server_id == "server-1":
        assert (code, Invitation.load(path)) == (0, made)
        assert f"{path} held an earlier invitation of gamer to this server: it was replaced." in said
    else:
        assert (code, runner.asked, Invitation.load(path)) == (2, [], INVITED)
        assert f"{path} invites gamer to another server, atelier (127.0.0.1:1).\nMove that file away" in said


@pytest.mark.skipif(sys.platform == "win32", reason="there the first process waits for the second")
def test_a_link_goes_into_a_private_file_and_off_the_command_line(terminal: Terminal, tmp_path: Path) -> None:
    link = invitation_to(("127.0.0.1", free_port())).link
    log = tmp_path / "log"
    with log.open("wb") as output:
        words = [sys.executable, "-m", "soulsgui", *terminal.places, "client", link]
        process = subprocess.Popen(words, stdout=output, stderr=output)
    kept = tmp_path / "config" / "servers" / "server-1.soulsgui"
    try:
        until_now(lambda: b"No answer from 127.0.0.1" in log.read_bytes())
        words = psutil.Process(process.pid).cmdline()
        assert str(kept) in words
        assert not [word for word in words if word.startswith("soulsgui:")]
        assert SECRET not in log.read_text()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert Invitation.load(kept).link == link
    finally:
        process.terminate()
        assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize("word", ["mine.soulsgui", "MINE.SOULSGUI", "soulsgui://join/abc"])
def test_an_invitation_alone_opens_the_window(word: str) -> None:
    found = parse(["--data-dir", "d", word])
    assert (found.handler, found.invitation) == ("soulsgui.cli.roles:gui", word)


def test_a_link_to_the_window_goes_into_a_private_file_and_off_the_command_line(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("soulsgui.cli.inviting.become", lambda argv, _env: became.append(argv))
    opened: list[str] = []
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr("soulsgui.gui.app.run_window", lambda _folders, _mode, word: opened.append(word) or 0)
    terminal.out(INVITED.link)
    path = terminal.data / "window" / "opened.soulsgui"
    assert opened == [str(path)]
    assert SECRET not in " ".join(became[0])
    assert became[0][-5:] == [str(path), *terminal.places]
    assert is_private(path)
    folders = Folders(tmp_path / "config", terminal.data)
    assert take_opened(str(path), folders) == INVITED
    assert not path.exists(), "it only waited for the window"
    mine = tmp_path / "mine.soulsgui"
    INVITED.save(mine)
    terminal.out("gui", mine)
    assert opened[-1] == str(mine)
    assert take_opened(str(mine), folders) == INVITED
    assert mine.exists(), "a file of the user's own stays"
    terminal.out("gui soulsgui://join/abc")
    assert opened[-1] == "soulsgui://join/abc", "the window says what is wrong with it"


@pytest.mark.parametrize("word", ["pause", "continue", "stop", "status"])
def test_what_is_asked_of_a_join_says_that_nothing_plays_here(terminal: Terminal, word: str) -> None:
    assert "plays for nobody" in terminal.err(f"join {word}", code=3)
    terminal.err(f"join {word} --here")


def test_durations_are_read_as_people_write_them() -> None:
    words = ("90s", "30m", "30 min", "1.5h")
    assert [joined.duration_s(word) for word in words] == [90, 1800, 1800, 5400]


def test_the_owner_pauses_and_ends_a_join_from_elsewhere(terminal: Terminal, tmp_path: Path) -> None:
    (terminal.data / "server").mkdir(parents=True)
    Address("127.0.0.1", free_port(), "x").write(terminal.data / "server" / "redis.json")
    words = command_line("join", "--name", "a", folder=tmp_path)
    join = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    control, pause = terminal.data / "client" / "control.json", terminal.data / "client" / "pause.json"
    try:
        until_now(control.exists)
        assert "it is paused until" in terminal.out("join pause --for 30m")
        assert 1700 < json.loads(pause.read_text())["until"] - time.time() < 1801
        said = terminal.out("status")
        assert "paused by you until" in said
        assert "soulsgui join continue" in said
        terminal.out("join continue")
        assert not pause.exists()
        (client,) = terminal.json("join status")["clients"]
        assert (client["id"], client["wish"]) == ("a", "run")
        assert "soulsgui join stop" in terminal.err("shutdown", code=3)
        # Whoever started it takes note of its end.
        threading.Thread(target=join.wait, daemon=True).start()
        assert "no longer helps" in terminal.out("join stop")
        assert not control.exists()
        assert join.wait(LIMIT_S) == 0
    finally:
        join.kill()
        join.wait()


@pytest.mark.parametrize("words", ["config show", "config set seed=3", "serve --idle"])
@pytest.mark.parametrize("data", [b"seed: 5 # \xe9\n", "seed: 5\n".encode("utf-16"), b"#" * 10_485_760])
def test_a_configuration_that_is_no_text_is_told(terminal: Terminal, words: str, data: bytes) -> None:
    terminal.write(data)
    said = terminal.err(words)
    assert "config.yaml" in said
    assert "move it away" in said
    assert terminal.config.read_bytes() == data


class _OtherRunner(BaseHTTPRequestHandler):
    """What has the port of a runner that ended: one of another data folder."""

    def do_GET(self) -> None:
        error = ApiError(code=ErrorCode.NOT_ALLOWED, message="wrong token")
        body = json.dumps({"ok": False, "error": error.model_dump(mode="json")}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("younger_s", "code", "words"),
    [(60.0, 3, ("ended unexpectedly", "soulsgui serve")), (0.0, 4, ("wrong token",))],
    ids=["dead", "alive"],
)
def test_a_runner_that_refuses_is_believed_while_it_lives_and_its_place_is_not_taken_for_it(
    terminal: Terminal, younger_s: float, code: int, words: tuple[str, ...]
) -> None:
    identity = process_identity(os.getpid())
    assert identity is not None
    process = dict(identity) | {"start_time": identity["start_time"] - younger_s}
    with HTTPServer(("127.0.0.1", 0), _OtherRunner) as server:
        control = ControlFile(
            port=server.server_port, token="t", server_id="s", pid=os.getpid(), process=process
        )
        (terminal.data / "server").mkdir(parents=True)
        (terminal.data / "server" / "control.json").write_text(control.to_json())
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        said = terminal.err("status", code=code)
        server.shutdown()
        thread.join()
    for part in words:
        assert part in said


def started(
    terminal: Terminal, words: str, more: str = "", **env: str
) -> "subprocess.CompletedProcess[bytes]":
    """Run the program through a shell, as a person may."""
    script = f"{sys.executable} -m soulsgui {words} {shlex.join(terminal.places)} {more}"
    own = {"PYTHONPATH": str(Path.cwd())} | env
    return subprocess.run(["sh", "-c", script], capture_output=True, check=False, env=os.environ | own)


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        *(("ascii", words) for words in ("runs list --json", "config set seed=→", "--help", "logs →")),
        *((encoding, "runs list") for encoding in ("ascii", "cp1252")),
    ],
)
def test_letters_unknown_to_a_terminal_are_no_error(terminal: Terminal, encoding: str, words: str) -> None:
    add_run(terminal, "läuft → 人", error="ö … →", note="ü → 人")
    done = started(terminal, words, PYTHONIOENCODING=encoding, LC_ALL="C")
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    if words == "runs list":
        assert "\\u4eba" in done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("words", "code"), [("status", 3), ("runs list", 0), ("--help", 0), ("config set seed=x", 2), ("run", 2)]
)
def test_closed_standard_streams_are_no_error(terminal: Terminal, words: str, code: int) -> None:
    assert started(terminal, words, "<&- >&- 2>&-").returncode == code


def test_a_run_is_started_and_resumed_with_settings(terminal: Terminal, runner: FakeRunner) -> None:
    terminal.out("run start --local-clients 3 --set seed=4")
    terminal.out("run start")
    terminal.out("run resume r1 --local-clients 1 --set stop.window=9")
    terminal.err("run resume --set stop.windw=9")
    wished = [{"seed": 4, "clients.local": 3}, {}, {"stop.window": 9, "clients.local": 1}]
    assert [params["overrides"] for _, params in runner.asked] == wished


@pytest.mark.parametrize(
    ("states", "code", "words"),
    [
        (["starting", "running"], 0, "started r1 (/r1)"),
        (["starting", "saving", "failed"], 1, "r1 did not start. no GPU"),
    ],
)
def test_a_run_that_is_slow_to_start_is_waited_for(
    terminal: Terminal,
    runner: FakeRunner,
    monkeypatch: pytest.MonkeyPatch,
    states: list[str],
    code: int,
    words: str,
) -> None:
    runner.answer = CommandFailedError(ApiError(code=ErrorCode.NO_ANSWER, message="not ready after 55 s"))
    run = RunStatus(id="r1", dir="/r1", detail="loading torch", error="no GPU", algorithm="ppo")
    runner.states = [run.model_copy(update={"state": state}) for state in ("starting", *states)]
    monkeypatch.setattr(remote, "_LOOK_EVERY_S", 0.0)
    found, out, err = terminal.type("run start")
    assert found == code
    assert words in out + err
    assert "r1 is still starting" in err
    assert "loading torch" in err


LONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "data", "config", "code", "said"),
    [
        ("serve --idle", "file/data", "config", 2, "The folder {data} can't be made|--data-dir DIR"),
        ("serve --idle", LONG, "config", 2, "File name too long|--data-dir DIR"),
        ("status", LONG, "config", 3, "control.json can't be read: File name too long"),
        ("config show", "data", LONG, 2, "can't be read in {config}: File name too long|--config-dir DIR"),
    ],
)
def test_a_folder_that_can_not_be_is_told_with_reason_and_remedy(
    terminal: Terminal, tmp_path: Path, words: str, data: str, config: str, code: int, said: str
) -> None:
    (tmp_path / "file").touch()
    before = signal.getsignal(signal.SIGINT)
    terminal.places = ["--data-dir", str(tmp_path / data), "--config-dir", str(tmp_path / config)]
    found = terminal.err(words, code=code)
    assert signal.getsignal(signal.SIGINT) is before, "no signal goes to a runner that is gone"
    for part in said.format(data=tmp_path / data, config=tmp_path / config).split("|"):
        assert part in found


def test_a_named_file_is_checked_instead_of_ones_own(terminal: Terminal, tmp_path: Path) -> None:
    named = tmp_path / "other.yaml"
    terminal.write("seeed: 3\n")
    named.write_text("seed: 4\n")
    terminal.out("config check", named)
    named.write_text("\nppo:\n  gamma: 7\n")
    said = terminal.err("config check", named)
    assert "other.yaml, line 3: ppo.gamma = 7" in said
    assert "seeed" not in said
    assert f"There is no file {tmp_path / 'none.yaml'}." in terminal.err(
        "config check", tmp_path / "none.yaml"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_configuration_that_is_no_file_is_refused_at_once(terminal: Terminal, kind: str) -> None:
    terminal.config.parent.mkdir()
    make = {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}
    make[kind](terminal.config)
    for words in ("config check", "config set seed=3", f"config check {terminal.config}"):
        said = terminal.err(words)
        assert "config.yaml: " + ("can't be read" if kind == "folder" else "is a pipe or a device in") in said
        assert "--config-dir DIR" in said


def test_the_best_trial_is_told_as_the_command_that_makes_it_again(
    terminal: Terminal, runner: FakeRunner
) -> None:
    best = {"number": 1, "state": "complete", "score": 9.0, "values": {"ppo.epochs": 5}, "run_id": "r1"}
    about: dict[str, Any] = {"preset": "pendulum_ppo", "overrides": {"env.id": "A-v1", "ppo.epochs": 3}}
    runner.answer = about | {
        "id": "one",
        "state": "finished",
        "wanted": 2,
        "space": {},
        "trials": [best],
        "best": best,
    }
    _, out, _ = terminal.type("sweep best")
    assert out.splitlines()[1] == (
        "soulsgui run start --preset pendulum_ppo --set 'env.id=\"A-v1\"' --set ppo.epochs=5"
    )
    code, _, error = terminal.type("sweep start")
    assert (code, "There is nothing to search" in error) == (2, True)
