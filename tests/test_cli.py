"""The command line: what can be typed, exit codes, what is imported for it."""

import argparse
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
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from soulsgui.cli import remote
from soulsgui.cli.joined import duration_s
from soulsgui.cli.main import run
from soulsgui.cli.parser import GROUPS, make_parser, parse
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.gui.shell.instance import take_opened
from soulsgui.runner.events import EventLog
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.system import free_port, is_private, process_identity
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.connection import Address
from soulsgui.wire.control import (
    ApiError,
    ClientStatus,
    ControlFile,
    ErrorCode,
    NewInvitation,
    RunStatus,
    Status,
)
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import command_line
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until_now
from tests.runner.fake_program import save
from tests.states import checkpoint

Capture = pytest.CaptureFixture[str]

HIDDEN = ("probe", "worker", "learner", "job")


def invitation(port: int = 1) -> Invitation:
    """One of a server that nobody runs."""
    return Invitation(
        server_id="server-1",
        server_name="atelier",
        client="gamer",
        addresses=(("127.0.0.1", port),),
        secret="0123456789abcdef-for-tests",
        prefix="souls:",
        created=1.0,
    )


@pytest.mark.processes
def test_an_environment_is_examined_and_reported(tmp_path: Path, capsys: Capture) -> None:
    assert soulsgui(tmp_path, "env", "check", "Acrobot-v1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Acrobot-v1: works"
    assert "  takes        one of 3 actions" in lines
    assert soulsgui(tmp_path, "env", "check", "--set", "env.id=Acrobat-v1", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["spaces"]) == (False, None)
    assert "Acrobot-v1" in report["problems"][0]
    assert report["places"] == {"env.id": "--set"}
    assert soulsgui(tmp_path, "env", "check", "Acrobat-v1") == 1
    assert "set          env.id in the argument ID" in capsys.readouterr().out
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text("env:\n  id: Acrobat-v1\n  wrappers: [Nope]\n")
    assert soulsgui(tmp_path, "env", "check") == 1
    said = capsys.readouterr().out
    assert "problem      env.wrappers, entry 1: There is no wrapper 'Nope'" in said
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def soulsgui(folder: Path, *words: str) -> int:
    """Run a command in this process, with its folders below `folder`."""
    try:
        return run([*words, "--config-dir", str(folder / "config"), "--data-dir", str(folder / "data")])
    except SystemExit as end:
        return int(end.code or 0)


class Runner:
    """A runner that notes what is asked of it."""

    control = ControlFile(port=1, token="t", server_id="server-1", pid=1)

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] | Exception = {"run_id": "r1", "run_dir": "/r1"}
        self.told = Status(run=RunStatus(algorithm="ppo"))
        self.states: list[RunStatus] = []

    def command(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((name, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def status(self) -> dict[str, Any]:
        run = self.states.pop(0) if self.states else self.told.run
        return self.told.model_copy(update={"run": run}).model_dump(mode="json")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner()
    monkeypatch.setattr(remote, "runner_of", lambda _arguments: made)
    monkeypatch.setattr("soulsgui.cli.inviting.runner_of", lambda _arguments: made)
    return made


def add_run(folder: Path, name: str = "one") -> RunFolder:
    library = Library(folder / "data" / "runs")
    made = library.create(name, 1_000_000.0)
    library.write_record(made, RunRecord(id=made.run_id, name=name, created=1.0, state="stopped"))
    return made


def test_folders_and_settings_stand_anywhere() -> None:
    for words in (
        ["--data-dir", "d", "status", "--set", "a=1", "--json", "--config-dir=c", "--set=b=2"],
        ["status", "--json", "--data-dir", "d", "--config-dir", "c", "--set", "a=1", "--set", "b=2"],
        ["--set", "a=1", "--set", "b=2", "--config-dir", "c", "--data-dir", "d", "status", "--json"],
    ):
        found = parse(words)
        assert (found.config_dir, found.data_dir) == (Path("c"), Path("d"))
        assert found.assignments == ["a=1", "b=2"]
        assert found.as_json
    assert parse(["status"]).data_dir is None
    assert parse(["status"]).assignments == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # the command line
        (["fly"], "'fly' is no command. There are: gui, serve,"),
        (["serv"], "'serv' is no command. Did you mean serve?"),
        (["run", "strat"], "'strat' is no command. Did you mean start?"),
        (["prob"], "'prob' is no command."),
        (["completion"], "'completion' is no command. There are: gui, serve,"),
        (["Check"], "'Check' is no command. Did you mean checkpoints?"),
        (["run", "fly"], "There are: start, resume, stop, pause, continue."),
        (["status", "--jsn"], "soulsgui status: error: --jsn is nothing that it takes. Did you mean --json?"),
        (["status", "extra"], "extra is nothing that it takes. What there is: soulsgui status --help"),
        (["clients", "pause"], "NAME is missing."),
        (["trainer"], "--run is missing."),
        (["serve", "--local-clients", "many"], "--local-clients should be a whole number, not 'many'."),
        (["evaluate", "--episodes", "x"], "--episodes should be a whole number, not 'x'."),
        (["client", "--rate", "fast"], "--rate should be a number, not 'fast'."),
        (["logs", "trainer", "-n"], "-n needs a value behind it."),
        (["shutdown", "all"], "what should be one of 'clients', 'run', 'server', not 'all'."),
        (["call", "server.hello", "{"], "The parameters are not JSON: look at character 2."),
        *(
            (["call", "server.hello", word], "The parameters are no JSON object.")
            for word in ("[1]", "3", '"x"')
        ),
        # settings
        (["config", "set", "ppo.gamma=2"], "config set: ppo.gamma = 2: should be less than or equal to 1."),
        (["config", "check", "--set", "ppo.gamma=abc"], "ppo.gamma = 'abc': should be a number."),
        (["config", "check", "--set", "redis.lan=[1]"], "should be true or false."),
        (["config", "check", "--set", "network.hidden_sizes=3"], "should be a list, such as [64, 64]."),
        (["config", "check", "--set", "env.kwargs=3"], "should be a map, such as {key: value}."),
        # join
        (["join", "pauze"], "Did you mean: soulsgui join pause?"),
        (["join", "gamer-01"], "There is no invitation in gamer-01"),
        (["join", "--here", "gamer-01"], "--here"),
        (["join", "--for", "1h"], "--for and --after-episode go with a pause"),
        (["join", "continue", "--after-episode"], "--for and --after-episode go with a pause"),
        (["join", "stop", "--json"], "--json goes with `join status`."),
        (["join", "pause", "--for", "3q"], "a number and its unit, s, m (or min) or h, up to a week"),
        (["join", "pause", "--for", "200h"], "up to a week"),
        # services in the foreground
        (["client", "--server", "somewhere"], "HOST:PORT"),
        (["client", "--server", "127.0.0.1:0"], "HOST:PORT"),
        (["client", "--server", "8.8.8.8:6379"], "only servers on this machine"),
        (["client", "--server", "127.0.0.1:6379"], "--config-dir"),
        (["client", "--name", "two words"], "'two words' is no name"),
        (["client", "--num-envs", "0"], "--num-envs"),
        (["client", "--episodes", "-1"], "--episodes"),
        (["client"], "soulsgui serve"),
        (["client", "gamer-01"], "There is no invitation in gamer-01"),
        (["client", "soulsgui://join/abc"], "The link is damaged or cut off"),
        (["client", "soulsgui://watch/abc"], "The link is no invitation"),
        *(
            (["client", invitation().link, option, "127.0.0.1:1"], "An invitation says where the server is")
            for option in ("--server", "--server-file")
        ),
        # options of serve that contradict each other
        (["serve", "--until-done"], "needs a goal"),
        (["serve", "--idle", "--until-done"], "--idle"),
        (["serve", "--idle", "--resume", "latest"], "--idle"),
        (["serve", "--resume", "latest", "--preset", "cartpole_ppo"], "--resume"),
        (["trainer", "--run", "nowhere"], "no run"),
        (["telemetry", "--run", "nowhere"], "no run"),
    ],
)
def test_wrong_use_is_code_2_and_said_in_words_of_our_own(
    folder: Path, words: list[str], said: str, capsys: Capture
) -> None:
    assert soulsgui(folder, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "probe" not in captured.err
    assert not (folder / "data").exists()


def test_a_setting_of_another_algorithm_is_said_to_have_no_effect(
    folder: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("soulsgui.runner.headless.serve", lambda _folders, _options: 0)
    said = "dqn.agent has no effect while algorithm is ppo: set algorithm=dqn as well.\n"
    agent = ("--set", "dqn.agent=iqn")
    for words in (["serve"], ["run", "start"], ["config", "show"], ["config", "check"]):
        assert soulsgui(folder, *words, *agent) == 0
        assert said in capsys.readouterr().err
    for words in (["serve"], ["config", "show"]):
        assert soulsgui(folder, *words, *agent, "--set", "algorithm=dqn") == 0
        assert capsys.readouterr().err == ""
    assert soulsgui(folder, "config", "set", "dqn.agent=iqn") == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["runs"], ["clients"], ["config"], ["run"], ["checkpoints"]])
def test_a_group_alone_shows_its_commands(folder: Path, words: list[str], capsys: Capture) -> None:
    assert soulsgui(folder, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"usage: soulsgui {words[0]}" in captured.err
    assert "COMMAND" in captured.err
    assert "required" not in captured.err


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


@pytest.mark.parametrize(
    "words", [["--help"], ["serve", "--help"], ["run", "--help"], ["run", "start", "-h"], ["--version"]]
)
def test_help_is_code_0_and_shows_every_command_in_one_group(
    folder: Path, words: list[str], capsys: Capture
) -> None:
    assert soulsgui(folder, *words) == 0
    out = capsys.readouterr().out
    assert "soulsgui" in out
    assert "probe" not in out
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(make_parser().shown)
    if words == ["--help"]:
        assert all(f"\n{title}:\n  {names[0]} " in out for title, names in GROUPS.items())


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--json"],
        ["control", "--json"],
        ["call", "server.hello"],
        ["run", "start"],
        ["run", "stop"],
        ["quicksave"],
        ["clients", "list"],
        ["clients", "pause", "a"],
        ["shutdown"],
    ],
)
def test_without_a_runner_is_code_3_and_silence_on_standard_output(
    folder: Path, words: list[str], capsys: Capture
) -> None:
    assert soulsgui(folder, *words) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "soulsgui serve" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("saved", "printed", "explained"),
    [
        ({"memory": True}, ", with its replay memory)", ""),
        ({"memory_in_file": True}, "(7 steps, 9 bytes)", "of use only if training stops right there"),
        ({}, "(7 steps, 9 bytes)", "the algorithm of this run keeps none"),
    ],
)
def test_a_quicksave_says_what_there_is_of_the_replay_memory(
    folder: Path, runner: Runner, capsys: Capture, saved: dict[str, bool], printed: str, explained: str
) -> None:
    info = checkpoint(path="/c", env_steps=7, size_bytes=9, **saved)
    runner.answer = {"checkpoint": info.model_dump(mode="json")}
    assert soulsgui(folder, "quicksave", "--buffer") == 0
    said = capsys.readouterr()
    assert said.out.startswith("saved /c ")
    assert said.out.rstrip().endswith(printed)
    assert explained in said.err
    assert bool(explained) == bool(said.err)


def test_five_mistakes_are_refused_with_place_reason_and_nearest_key(folder: Path, capsys: Capture) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_text(
        "seeed: 3\nppo:\n  gamma: 1.5\n  n_stepz: 4\nenv:\n  num_envs: lots\n"
    )
    for words in (["config", "check"], ["serve"], ["config", "show"], ["serve", "--until-done"]):
        assert soulsgui(folder, *words, "--set", "clients.locale=3") == 2
        captured = capsys.readouterr()
        assert captured.out == ""
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
            assert said in captured.err
    assert not (folder / "data").exists()
    assert soulsgui(folder, "config", "check", "--json") == 2
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 4


def test_config_is_set_shown_checked_and_compared(folder: Path, capsys: Capture) -> None:
    assert soulsgui(folder, "config", "set", "seed=9", "ppo.gamma=0.5") == 0
    assert "seed, ppo.gamma: takes effect with the next new run" in capsys.readouterr().out
    assert soulsgui(folder, "config", "check") == 0
    capsys.readouterr()
    assert soulsgui(folder, "config", "show", "--json", "--set", "env.num_envs=7") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["seed"], shown["ppo"]["gamma"], shown["env"]["num_envs"]) == (9, 0.5, 7)
    assert soulsgui(folder, "config", "diff", "--json") == 0
    assert {one["key"]: one["value"] for one in json.loads(capsys.readouterr().out)} == {
        "seed": 9,
        "ppo.gamma": 0.5,
    }
    assert soulsgui(folder, "config", "show", "--preset", "lunarlander_ppo") == 0
    said = capsys.readouterr().out
    assert "LunarLander" in said
    assert "learner.threads: 0  # new run or resume\n" in said
    agent = ("--set", "algorithm=dqn", "--set", "dqn.agent=r2d2", "--set", "dqn.batch_size=320")
    assert soulsgui(folder, "config", "show", *agent) == 0
    said = capsys.readouterr().out
    assert 'network.recurrent: "lstm"  # new run, as shipped for r2d2\n' in said
    assert "dqn.batch_size: 320  # new run\n" in said
    assert soulsgui(folder, "config", "show", "ppo", "--set", "ppo.clip=0.3") == 0
    said = capsys.readouterr().out
    assert "ppo.clip: 0.3  # new run\n" in said
    assert all(line.startswith("ppo.") for line in said.splitlines())
    assert soulsgui(folder, "config", "show", "ppo", "--json") == 0
    assert json.loads(capsys.readouterr().out) == shown["ppo"]
    assert soulsgui(folder, "config", "show", "ppo.gamma", "--json") == 0
    assert json.loads(capsys.readouterr().out) == 0.5
    assert soulsgui(folder, "config", "show", "dqnn") == 2
    assert "'dqnn' is neither a setting nor a section of them.\nDid you mean dqn?" in capsys.readouterr().err
    assert soulsgui(folder, "config", "show", "--preset", "cartpol_ppo") == 2
    assert "cartpole_ppo" in capsys.readouterr().err
    assert soulsgui(folder, "config", "set", "seed=-1") == 2
    assert soulsgui(folder, "config", "set", "seeed=1") == 2
    assert "seed: 9" in (folder / "config" / "config.yaml").read_text()


def test_a_resume_that_can_not_be_is_said_before_anything_starts(folder: Path, capsys: Capture) -> None:
    assert soulsgui(folder, "serve", "--resume", "latest", "--until-done") == 1
    assert "no run yet" in capsys.readouterr().err
    made = add_run(folder)
    Library(made.root.parent).write_settings(made, Settings())
    for words, said in (
        (["seed=5", "--set", "stop.window=3"], "seed: can't change in a run that goes on"),
        (["learner.processes=2", "--set", "learner.compile=on"], "learner.compile = 'on': does not go with"),
        (["stop.windw=3"], "Did you mean stop.window?"),
    ):
        assert soulsgui(folder, "serve", "--resume", "latest", "--set", *words) == 2
        assert said in capsys.readouterr().err
    assert not (folder / "data" / "server").exists()


def test_runs_checkpoints_logs_and_events_are_read_without_a_runner(folder: Path, capsys: Capture) -> None:
    made = add_run(folder)
    save(made.checkpoint, made, "current", 500)
    (made.logs / "trainer.log").write_text("2026-11-20 10:00:00.000 INFO t: one\ntwo\n")
    (folder / "data" / "server" / "logs").mkdir(parents=True)
    EventLog(folder / "data" / "server" / "events.jsonl", lambda _: None).add("error", "it broke", "why")

    assert soulsgui(folder, "runs", "list", "--json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [made.run_id]
    assert soulsgui(folder, "checkpoints", "list", "--json") == 0
    (checkpoint,) = json.loads(capsys.readouterr().out)
    assert (checkpoint["id"], checkpoint["valid"], checkpoint["env_steps"]) == ("checkpoint", True, 500)
    assert {"kind", "path", "model_id", "updates", "score", "created", "size_bytes", "note"} <= set(
        checkpoint
    )
    save(made.best_model, made, "best", 400, score=9.0, scored_by="evaluation")
    save(made.checkpoint, made, "current", 600, score=3.0, scored_by="training")
    assert soulsgui(folder, "checkpoints", "list") == 0
    heads, newest, best = capsys.readouterr().out.splitlines()
    assert heads.startswith("CHECKPOINT  SAVED ")
    assert newest.index(" 3.0 ") == heads.index("TRAINING RETURN") - 1
    assert best.index(" 9.0 ") == heads.index("EVALUATION") - 1
    assert soulsgui(folder, "logs", "trainer") == 0
    assert capsys.readouterr().out == "2026-11-20 10:00:00 INFO t: one\ntwo\n"
    assert soulsgui(folder, "logs", "") == 0, "those of all services"
    assert "two" in capsys.readouterr().out
    assert soulsgui(folder, "logs", "oven") == 1
    assert "trainer" in capsys.readouterr().err
    assert soulsgui(folder, "events", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["what"] == "it broke"
    assert soulsgui(folder, "events", "--since", "1") == 0
    assert capsys.readouterr().out == ""
    assert soulsgui(folder, "runs", "list") == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split() == ["RUN", "NAME", "STATE", "STEPS", "DURATION", "SIZE"]
    assert row.index(" stopped ") == heads.index("STATE") - 1
    assert soulsgui(folder, "events") == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_checkpoints_of_no_run_are_code_1(folder: Path, capsys: Capture) -> None:
    assert soulsgui(folder, "checkpoints", "list") == 1
    assert "no run yet" in capsys.readouterr().err
    assert soulsgui(folder, "runs", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def imported_by(words: list[str], folder: Path) -> set[str]:
    """Names of the modules that a command has imported at its end."""
    text = (
        "import sys\nfrom soulsgui.cli.main import run\n"
        f"code = run({words!r} + ['--data-dir', {str(folder)!r}])\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["status"], {"torch", "numpy", "aiohttp", "redis", "asyncio", "gymnasium", "psutil", "ruamel.yaml"}),
        (["runs", "list"], {"torch", "aiohttp", "gymnasium", "matplotlib"}),
        (["config", "check"], {"torch", "aiohttp", "gymnasium", "matplotlib"}),
        (["serve", "--resume", "x", "--until-done"], {"torch", "gymnasium", "matplotlib"}),
        (["client"], {"torch", "aiohttp", "matplotlib"}),
        (["client", "nowhere.soulsgui"], {"torch", "aiohttp", "matplotlib", "gymnasium"}),
    ],
)
def test_commands_import_what_they_need_alone(folder: Path, words: list[str], heavy: set[str]) -> None:
    assert imported_by(words, folder) & heavy == set()


def test_probe_keeps_standard_output_for_its_report(folder: Path) -> None:
    (folder / "noisy.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "print('hello from a noisy package')\n"
        "gymnasium.register('Noisy-v0', CartPoleEnv)\n"
    )
    learner = {"algorithm": "sac", "network": "mlp", "channels": "auto"}
    pace = {"seconds": 10, "step_s": 0, "delay_s": 0}
    wanted = {"id": "noisy:Noisy-v0", "kwargs": {}, "wrappers": [], "learner": learner}
    done = subprocess.run(
        [sys.executable, "-m", "soulsgui", "probe"],
        input=json.dumps(wanted | pace),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{Path.cwd()}:{folder}", "PATH": ""},
    )
    *doings, last = (json.loads(line) for line in done.stdout.splitlines())
    assert [one["doing"] for one in doings][:5] == [
        "its import",
        "being made",
        "reset()",
        "a second reset()",
        "step 1",
    ]
    report = last["report"]
    assert report["ok"]
    assert report["misfit"]["message"].startswith("sac chooses numbers within bounds; this environment")
    assert "noisy package" in done.stderr


def test_a_closed_standard_output_is_no_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert soulsgui(folder, "config", "show") == 0


def test_mistakes_that_json_does_not_know_are_listed_all_the_same(folder: Path, capsys: Capture) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_text("env:\n  kwargs: {x: 2024-01-01, y: .nan}\n")
    assert soulsgui(folder, "config", "check", "--json") == 2
    assert json.loads(capsys.readouterr().out)["problems"][0]["key"] == "env.kwargs"


def test_only_clients_that_are_there_are_asked_to_stop(folder: Path, runner: Runner) -> None:
    clients = [
        ClientStatus(id="here", name="here", state="online", age_s=0.5, invited=1.0),
        ClientStatus(id="client-1", name="client-1", state="joining", local=True),
        ClientStatus(id="expected", name="expected", state="joining", invited=1.0),
        ClientStatus(id="sent-away", name="sent-away", state="revoked", age_s=3.0, invited=1.0),
        ClientStatus(id="away", name="away", state="left", age_s=3.0),
    ]
    runner.told = Status(clients=clients)
    assert soulsgui(folder, "shutdown", "clients") == 0
    assert runner.asked == [("clients.stop", {"client": name}) for name in ("here", "client-1")]


def test_a_setting_of_the_server_says_when_it_takes_effect(folder: Path, capsys: Capture) -> None:
    assert soulsgui(folder, "config", "set", "redis.tls=true", "stop.window=9") == 0
    said = capsys.readouterr().out
    assert said.endswith("redis.tls: takes effect when the server starts anew\n")
    assert "stop.window: takes effect with the next new run; one that goes on takes it by: " in said


@pytest.mark.parametrize("word", ["gamer-01", "Living room"])
def test_a_client_is_meant_by_its_id_or_by_its_name(folder: Path, runner: Runner, word: str) -> None:
    clients = [ClientStatus(id="b", name="b"), ClientStatus(id="gamer-01", name="Living room")]
    runner.told = Status(clients=clients)
    assert soulsgui(folder, "clients", "pause", word) == 0
    assert runner.asked == [("clients.pause", {"client": "gamer-01"})]


def test_an_invitation_is_good_for_its_own_name_alone(folder: Path, capsys: Capture) -> None:
    path, saved = folder / "a.soulsgui", SavedInvitations(Folders(folder / "config", folder / "data"))
    invitation().save(path)
    for words in (("client", str(path)), ("join", str(path)), ("join",)):
        if words == ("join",):  # without one it keeps to the one of last time
            assert not (folder / "config" / "servers").exists()
            saved.keep(invitation())
            saved.choose(invitation())
        assert soulsgui(folder, *words, "--name", "another") == 2
        assert "for gamer, not for another" in capsys.readouterr().err


def test_an_invitation_overwrites_no_file_but_an_older_one_of_the_same_client(
    folder: Path, capsys: Capture
) -> None:
    own, other, foreign = (folder / name for name in ("own.soulsgui", "other.soulsgui", "thesis.tex"))
    invitation().save(own)
    invitation().model_copy(update={"client": "other"}).save(other)
    foreign.write_text("years of work")
    for path in (other, foreign, folder):
        assert soulsgui(folder, "invite", "gamer", "--file", str(path)) == 2
        assert f"{path} exists and is no earlier invitation of gamer" in capsys.readouterr().err
    assert soulsgui(folder, "invite", "gamer", "--file", str(folder / "no" / "where")) == 2
    assert "There is no folder" in capsys.readouterr().err
    # No runner is there to be asked, so nothing is written.
    assert soulsgui(folder, "invite", "gamer", "--file", str(own)) == 3
    assert soulsgui(folder, "revoke", "gamer") == 3
    assert soulsgui(folder, "invite", "two words") == 2
    assert foreign.read_text() == "years of work"
    assert Invitation.load(own) == invitation()


@pytest.mark.parametrize("server_id", ["server-1", "server-2"])
def test_the_file_of_another_server_is_left_alone_and_an_own_one_replaced_aloud(
    folder: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: Capture, server_id: str
) -> None:
    made = invitation().model_copy(update={"server_id": server_id, "secret": "another-secret-for-tests"})
    told = NewInvitation(
        client="gamer",
        username="user-gamer",
        addresses=[("127.0.0.1", 1)],
        lan=True,
        secret=made.secret,
        link=made.link,
        file_text=made.file_text,
    )

    runner.answer = told.model_dump(mode="json")
    runner.control = runner.control.model_copy(update={"server_id": server_id})
    path = folder / "gamer.soulsgui"
    invitation().save(path)
    monkeypatch.chdir(folder)
    code = soulsgui(folder, "invite", "gamer")
    said = capsys.readouterr().err
    if server_id == "server-1":
        assert (code, Invitation.load(path)) == (0, made)
        assert f"{path} held an earlier invitation of gamer to this server: it is replaced." in said
    else:
        assert (code, runner.asked, Invitation.load(path)) == (2, [], invitation())
        assert f"{path} invites gamer to another server, atelier (127.0.0.1:1).\nMove that file away" in said


@pytest.mark.skipif(sys.platform == "win32", reason="there the first process waits for the second")
def test_a_link_is_kept_in_a_private_file_and_vanishes_from_the_command_line(folder: Path) -> None:
    link = invitation(free_port()).link
    places = ["--config-dir", str(folder / "config"), "--data-dir", str(folder / "data")]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "soulsgui", *places, "client", link], stdout=output, stderr=output
        )
    kept = folder / "config" / "servers" / "server-1.soulsgui"
    try:
        until_now(lambda: b"No answer from 127.0.0.1" in log.read_bytes(), 30)
        words = psutil.Process(process.pid).cmdline()
        assert str(kept) in words
        assert not [word for word in words if word.startswith("soulsgui:")]
        assert invitation().secret not in log.read_text()
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
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("soulsgui.cli.inviting.become", lambda argv, _env: became.append(argv))
    opened: list[str] = []
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr("soulsgui.gui.app.run_window", lambda _folders, _mode, word: opened.append(word) or 0)
    assert soulsgui(folder, invitation().link) == 0
    path = folder / "data" / "window" / "opened.soulsgui"
    assert opened == [str(path)]
    assert invitation().secret not in " ".join(became[0])
    assert became[0][-5:] == [str(path), "--config-dir", f"{folder}/config", "--data-dir", f"{folder}/data"]
    assert is_private(path)
    folders = Folders(folder / "config", folder / "data")
    assert take_opened(str(path), folders) == invitation()
    assert not path.exists(), "it only waited for the window"
    mine = folder / "mine.soulsgui"
    invitation().save(mine)
    assert soulsgui(folder, "gui", str(mine)) == 0
    assert opened[-1] == str(mine)
    assert take_opened(str(mine), folders) == invitation()
    assert mine.exists(), "a file of the user's own stays"
    assert soulsgui(folder, "gui", "soulsgui://join/abc") == 0
    assert opened[-1] == "soulsgui://join/abc", "the window says what is wrong with it"


@pytest.mark.parametrize("word", ["pause", "continue", "stop", "status"])
def test_what_is_asked_of_a_join_says_that_nothing_plays_here(
    folder: Path, word: str, capsys: Capture
) -> None:
    assert soulsgui(folder, "join", word) == 3
    assert "plays for nobody" in capsys.readouterr().err
    assert soulsgui(folder, "join", word, "--here") == 2


def test_durations_are_read_as_people_write_them() -> None:
    words = ("90s", "30m", "30 min", "1.5h")
    assert [duration_s(word) for word in words] == [90, 1800, 1800, 5400]


def test_the_owner_pauses_continues_and_ends_a_join_from_a_second_terminal(
    folder: Path, capsys: Capture
) -> None:
    (folder / "data" / "server").mkdir(parents=True)
    Address("127.0.0.1", free_port(), "x").write(folder / "data" / "server" / "redis.json")
    join = subprocess.Popen(
        command_line("join", "--name", "a", folder=folder),
        stderr=subprocess.DEVNULL,
    )
    control = folder / "data" / "client" / "control.json"
    try:
        until_now(control.exists)
        assert soulsgui(folder, "join", "pause", "--for", "30m") == 0
        assert "it is paused until" in capsys.readouterr().out
        kept = json.loads((folder / "data" / "client" / "pause.json").read_text())
        assert 1700 < kept["until"] - time.time() < 1801
        assert soulsgui(folder, "status") == 0
        assert "paused by you until" in (said := capsys.readouterr().out)
        assert "soulsgui join continue" in said
        assert soulsgui(folder, "join", "continue") == 0
        assert not (folder / "data" / "client" / "pause.json").exists()
        capsys.readouterr()
        assert soulsgui(folder, "join", "status", "--json") == 0
        (client,) = json.loads(capsys.readouterr().out)["clients"]
        assert (client["id"], client["wish"]) == ("a", "run")

        assert soulsgui(folder, "shutdown") == 3
        assert "soulsgui join stop" in capsys.readouterr().err
        # Whoever started it takes note of its end.
        threading.Thread(target=join.wait, daemon=True).start()
        assert soulsgui(folder, "join", "stop") == 0
        assert "helps no longer" in capsys.readouterr().out
        assert not control.exists()
        assert join.wait(LIMIT_S) == 0
    finally:
        join.kill()
        join.wait()


@pytest.mark.parametrize("words", [["config", "show"], ["config", "set", "seed=3"], ["serve", "--idle"]])
@pytest.mark.parametrize("data", [b"seed: 5 # \xe9\n", "seed: 5\n".encode("utf-16"), b"#" * 10_485_760])
def test_a_configuration_that_is_no_text_is_code_2_with_the_remedy(
    folder: Path, words: list[str], data: bytes, capsys: Capture
) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_bytes(data)
    assert soulsgui(folder, *words) == 2
    said = capsys.readouterr().err
    assert "config.yaml" in said
    assert "move it away" in said
    assert (folder / "config" / "config.yaml").read_bytes() == data


def stale(folder: Path, port: int, **fields: object) -> None:
    """Leave a control.json of a runner that has ended; its pid is that of this process now."""
    control = ControlFile(port=port, token="t", server_id="s", pid=os.getpid())
    (folder / "data" / "server").mkdir(parents=True)
    path = folder / "data" / "server" / "control.json"
    path.write_text(control.model_copy(update=fields).to_json())


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


@pytest.fixture
def other_runner() -> Iterator[int]:
    """The port of another runner."""
    server = HTTPServer(("127.0.0.1", 0), _OtherRunner)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_place_of_a_dead_runner_is_not_taken_for_it(
    folder: Path, other_runner: int, capsys: Capture
) -> None:
    identity = process_identity(os.getpid())
    assert identity is not None
    stale(folder, other_runner, process=dict(identity) | {"start_time": identity["start_time"] - 60.0})
    assert soulsgui(folder, "status") == 3
    said = capsys.readouterr().err
    assert "has ended without a farewell" in said
    assert "soulsgui serve" in said


def test_a_runner_that_lives_and_refuses_is_believed(
    folder: Path, other_runner: int, capsys: Capture
) -> None:
    stale(folder, other_runner, process=dict(process_identity(os.getpid()) or {}))
    assert soulsgui(folder, "status") == 4
    assert "wrong token" in capsys.readouterr().err


def started(folder: Path, script: str, **env: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the program through a shell, as a person may."""
    command = f"{sys.executable} -m soulsgui"
    places = f"--config-dir {folder / 'config'} --data-dir {folder / 'data'}"
    return subprocess.run(
        ["sh", "-c", script.format(soulsgui=command, places=places)],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())} | env,
    )


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        *(("ascii", words) for words in ("runs list --json", "config set seed=→", "--help", "logs →")),
        *((encoding, "runs list") for encoding in ("ascii", "cp1252")),
    ],
)
def test_letters_that_a_terminal_does_not_know_are_no_error(folder: Path, encoding: str, words: str) -> None:
    library = Library(folder / "data" / "runs")
    made = library.create("one", 1_000_000.0)
    record = RunRecord(id=made.run_id, name="läuft → 人", created=1.0, state="stopped", error="ö … →")
    library.write_record(made, record.model_copy(update={"note": "ü → 人"}))
    done = started(folder, f"{{soulsgui}} {words} {{places}}", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    if words == "runs list":
        assert "\\u4eba" in done.stdout.decode(encoding)


@pytest.mark.parametrize(
    ("words", "code"),
    [("status", 3), ("runs list", 0), ("--help", 0), ("config set seed=x", 2), ("run", 2)],
)
def test_closed_standard_streams_are_no_error(folder: Path, words: str, code: int) -> None:
    assert started(folder, f"{{soulsgui}} {words} {{places}} <&- >&- 2>&-").returncode == code


def test_a_run_is_started_and_resumed_with_settings_and_a_number_of_local_clients(
    folder: Path, runner: Runner
) -> None:
    assert soulsgui(folder, "run", "start", "--local-clients", "3", "--set", "seed=4") == 0
    assert soulsgui(folder, "run", "start") == 0
    assert soulsgui(folder, "run", "resume", "r1", "--local-clients", "1", "--set", "stop.window=9") == 0
    assert soulsgui(folder, "run", "resume", "--set", "stop.windw=9") == 2
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
    folder: Path,
    runner: Runner,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    states: list[str],
    code: int,
    words: str,
) -> None:
    runner.answer = CommandFailedError(ApiError(code=ErrorCode.NO_ANSWER, message="not ready after 55 s"))
    run = RunStatus(id="r1", dir="/r1", detail="loading torch", error="no GPU", algorithm="ppo")
    runner.states = [run.model_copy(update={"state": state}) for state in ("starting", *states)]
    monkeypatch.setattr(remote, "_LOOK_EVERY_S", 0.0)
    assert soulsgui(folder, "run", "start") == code
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert "r1 is still starting" in said.err
    assert "loading torch" in said.err


@pytest.mark.parametrize(
    ("words", "data", "config", "code", "said"),
    [
        (
            ["serve", "--idle"],
            "file/data",
            "config",
            2,
            ("The data folder {data} can't be made", "--data-dir DIR"),
        ),
        (["serve", "--idle"], "x" * 300, "config", 2, ("File name too long", "--data-dir DIR")),
        (["status"], "x" * 300, "config", 3, ("control.json can't be read: File name too long",)),
        (
            ["config", "show"],
            "data",
            "x" * 300,
            2,
            ("can't be read in {config}: File name too long", "--config-dir DIR"),
        ),
    ],
)
def test_a_folder_that_can_not_be_is_told_with_reason_and_remedy(
    folder: Path, words: list[str], data: str, config: str, code: int, said: tuple[str, ...], capsys: Capture
) -> None:
    (folder / "file").touch()
    before = signal.getsignal(signal.SIGINT)
    assert run([*words, "--data-dir", str(folder / data), "--config-dir", str(folder / config)]) == code
    assert signal.getsignal(signal.SIGINT) is before, "no signal goes to a runner that is gone"
    found = capsys.readouterr().err
    for part in said:
        assert part.format(data=folder / data, config=folder / config) in found


def test_a_named_file_is_checked_instead_of_ones_own(folder: Path, capsys: Capture) -> None:
    named, own = folder / "other.yaml", folder / "config" / "config.yaml"
    own.parent.mkdir()
    own.write_text("seeed: 3\n")
    named.write_text("seed: 4\n")
    assert soulsgui(folder, "config", "check", str(named)) == 0
    named.write_text("\nppo:\n  gamma: 7\n")
    assert soulsgui(folder, "config", "check", str(named)) == 2
    said = capsys.readouterr().err
    assert "other.yaml, line 3: ppo.gamma = 7" in said
    assert "seeed" not in said
    assert soulsgui(folder, "config", "check", str(folder / "none.yaml")) == 2
    assert f"There is no file {folder / 'none.yaml'}." in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_configuration_that_is_no_file_is_refused_at_once(folder: Path, capsys: Capture, kind: str) -> None:
    own = folder / "config" / "config.yaml"
    own.parent.mkdir()
    make = {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}
    make[kind](own)
    for words in (["config", "check"], ["config", "set", "seed=3"], ["config", "check", str(own)]):
        assert soulsgui(folder, *words) == 2
        said = capsys.readouterr().err
        assert "config.yaml: " + ("can't be read" if kind == "folder" else "is a pipe or a device in") in said
        assert "--config-dir DIR" in said


def test_a_setting_without_a_value_is_told_the_usage(folder: Path, capsys: Capture) -> None:
    assert soulsgui(folder, "config", "set", "seed=9", "ppo.gamma") == 2
    said = capsys.readouterr().err
    assert "'ppo.gamma' has no value" in said
    assert "soulsgui config set KEY=VALUE" in said
    assert "mistake" not in said
    assert not (folder / "config" / "config.yaml").exists()
