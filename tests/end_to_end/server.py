"""A whole server as a user starts it: `soulsgui serve` in its own process and its own folders."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import redis

from soulsgui.cli.main import run
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.system.processes import LAST
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient, CommandFailedError
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.control import ControlFile, ErrorCode, Status
from tests.faults.waiting import LIMIT_S, until
from tests.servers import has_written

UNHURRIED = {
    "ppo.n_steps": 32,
    "ppo.epochs": 2,
    "client.step_seconds": 0.008,
    "evaluation.every_updates": 0,
    "stop.judged_by": "training",
}
"""Settings of a run without a goal that leave the cores to others: small rounds, played by a clock."""

_WITHOUT_FIGURES = str(Path(__file__).with_name("without_figures"))

T = TypeVar("T")


def command_line(*words: str, folder: Path) -> list[str]:
    """Return the command line of a `soulsgui` command with its folders below `folder`."""
    places = ["--config-dir", str(folder / "config"), "--data-dir", str(folder / "data")]
    return [sys.executable, "-m", "soulsgui", *words, *places]


def soulsgui(*words: str, folder: Path, timeout_s: float = LIMIT_S) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command_line(*words, folder=folder), capture_output=True, text=True, timeout=timeout_s, check=False
    )


def soulsgui_here(*words: str, folder: Path, typed: str = "") -> "subprocess.CompletedProcess[str]":
    """The same in this process, for what asks a server: that takes longer to begin than to be done."""
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(typed)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(command_line(*words, folder=folder)[3:])
    finally:
        sys.stdin = stdin
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def wait_for(look: Callable[[], T], what: str, timeout_s: float = LIMIT_S) -> T:
    """As `until`, for what is worth a process or a request to look at."""
    return until(look, what, timeout_s, every_s=0.05)


class RunningServer:
    """A server in the background; `words` follow `serve`. It has no matplotlib unless it `draws`."""

    def __init__(self, folder: Path, words: Sequence[str] = ("--idle",), draws: bool = False) -> None:
        self.folder = folder
        self.log = folder / "serve.log"
        self._children: list[subprocess.Popen[bytes]] = []
        places = ["" if draws else _WITHOUT_FIGURES, os.environ.get("PYTHONPATH", "")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        line = command_line("serve", *words, folder=folder)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT, env=env)
        control = folder / "data" / "server" / CONTROL_FILE
        wait_for(lambda: control.exists() or self.process.poll() is not None, "the control file")
        assert self.process.poll() is None, self.log.read_text()
        self.api = ApiClient(ControlFile.load(control))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def status(self) -> Status:
        return Status.model_validate(self.api.status())

    def pid(self, service: str) -> int | None:
        return next((found.pid for found in self.status().services if found.name == service), None)

    def kill(self, service: str) -> None:
        """Kill one of its services, and wait until another process is in its place."""
        old = self.pid(service)
        assert old is not None
        if service == REDIS:
            with closing(self.redis()) as connection:
                wait_for(lambda: has_written(connection), "all that it has accepted is in its file")
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.pid(service) not in (None, old), f"another process of {service}")

    def client_state(self, client: str) -> str:
        return next((found.state for found in self.status().clients if found.id == client), "")

    def redis(self) -> redis.Redis:
        return connect(Address.read(self.data / "server" / "redis.json"), timeout_s=LIMIT_S)

    def start_run(self, **params: Any) -> Path:
        """Begin a run and wait until it has been updated; return its folder."""
        run = self.begin("run.start", **params)
        self.wait_updates(1)
        return run

    def begin(self, command: str, **params: Any) -> Path:
        """Begin a run, or resume one, and wait until it is ready; return its folder."""
        try:
            self.api.command(command, params)
        except CommandFailedError as error:
            if error.code is not ErrorCode.NO_ANSWER:  # a busy machine is late, and goes on starting
                raise
            wait_for(lambda: self.status().run.state != "starting", "the run is ready")
        return Path(self.status().run.dir)

    def wait_updates(self, more: int) -> int:
        """Wait for so many updates from now on; return the number of updates."""
        start = self.status().run.updates
        return wait_for(lambda: (now := self.status().run.updates) >= start + more and now, f"{more} updates")

    def spawn(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start another command beside it; it is killed at the end."""
        line = command_line(*words, folder=self.folder)
        with (self.folder / "beside.log").open("ab") as log:
            self._children.append(subprocess.Popen(line, stdout=log, stderr=subprocess.STDOUT))
        return self._children[-1]

    def close(self) -> None:
        """End it as a user would, and make sure that nothing is left."""
        below = []
        for child in self._children:
            child.kill()
            child.wait()
        if self.process.poll() is None:
            below = psutil.Process(self.process.pid).children(recursive=True)
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LIMIT_S)
            self.process.kill()
            self.process.wait()
        _, left = psutil.wait_procs(below, timeout=LIMIT_S)
        for process in left:
            process.kill()
        assert not left, f"left behind: {left}; {self.log.read_text()[-2000:]}"


def let_play(runner_pid: int) -> bool:
    """Let evaluations of a runner have their share of cores that others keep busy, where that is allowed."""
    for process in psutil.Process(runner_pid).children(recursive=True):
        with suppress(psutil.Error):
            if process.nice() == LAST:
                process.nice(psutil.Process().nice())
    return True


def processes_below(folder: Path) -> list[str]:
    """Return the command lines of all processes that name a folder."""
    found = [process.info for process in psutil.process_iter(["cmdline", "pid"])]
    lines = [" ".join(told["cmdline"] or ()) for told in found if told["pid"] != os.getpid()]
    return [line for line in lines if str(folder) in line]


def last_json(text: str) -> dict[str, Any]:
    document = json.loads(text)
    assert isinstance(document, dict)
    return document
