"""The services of a server as the supervisor wants them: command lines, log files, checks, limits."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.family import Family
from soulsgui.runner.local_clients import local_address_file
from soulsgui.runner.redis_server import REDIS, RedisServer
from soulsgui.runner.service import Health, ServiceSpec
from soulsgui.runner.words import waits_words
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.node import NodeState

RUNNER = "runner"

# An update of a large network is not interrupted.
_TRAINER_GRACE_S = 10.0
_SAVE_GRACE_S = 60.0
_TELEMETRY_GRACE_S = 30.0
_LOAD_LIMIT_S = 120.0

# A single step of a game may take long.
_EVALUATOR_LIVE_S = 120.0
# Longer than the evaluation at the end of a run may take, whether it has reached a goal or was stopped.
_EVALUATOR_GRACE_S, EVALUATOR_HURRIED_GRACE_S = 13.0, 7.0

# Nodes read the settings of their run, which no other try would change. Clients are tried again: what they
# refuse may be put right meanwhile, by another run or by their owner.
_REFUSAL_CODE = UsageError.exit_code


class View(Protocol):
    """What a health check may look at: the runner's newest knowledge of the server."""

    def node(self, name: str) -> NodeState | None:
        """Return what the present process of a node said last, None before it has said anything."""

    def beat(self, client: str) -> Heartbeat | None:
        """Return the newest beat of a client."""

    def pid(self, service: str) -> int | None:
        """Return the pid of a supervised service."""


def client_name(number: int) -> str:
    """Return the name of a client the server starts itself, counted from 1."""
    return f"client-{number}"


def server_logs(folders: Folders) -> Path:
    """Logs of what lives longer than a run."""
    return folders.server / "logs"


def _binding(address_file: Path) -> str:
    """Return what tells the server that children find in their address file from every other one."""
    return hashlib.sha256(address_file.read_bytes()).hexdigest() if address_file.exists() else ""


def node_health(name: str, view: View) -> Callable[[], Health]:
    """Return the check of a node: its key, written by the very process that is supervised."""

    def check() -> Health:
        state = view.node(name)
        if state is None:
            return Health(ready=False)
        return Health(
            ready=True,
            tick=state.tick,
            phase=state.phase,
            detail=state.detail or waits_words(state.learner_waits, state.clients_wait),
            error=state.error,
            farewell=state.farewell,
        )

    return check


def client_health(name: str, view: View) -> Callable[[], Health]:
    """Return the check of a client: its heartbeat, from the very process that is supervised."""
    family = Family()

    def check() -> Health:
        beat = view.beat(name)
        if beat is None or not family.includes(view.pid(name), beat.instance.pid):
            return Health(ready=False)
        return Health(
            ready=True,
            tick=beat.counter,
            detail=beat.phase,
            error=beat.error,
            farewell="said goodbye" if beat.leaving else "",
        )

    return check


def redis_spec(server: RedisServer, folders: Folders, check: Callable[[], Health]) -> ServiceSpec:
    """Return the Redis server, which lives as long as the runner.

    Args:
        server: The server, ready to be started.
        folders: The user's folders.
        check: Whether it answers.
    """
    return ServiceSpec(
        name=REDIS,
        kind="redis",
        argv=server.argv,
        tier=0,
        log_path=server_logs(folders) / "redis.log",
        health=check,
        port=server.address.port,
        repair=server.repair,
        remark=server.remark,
    )


class RunServices:
    """Builds the services of one run.

    Args:
        folders: The user's folders.
        run: The run.
        view: What health checks look at.
    """

    def __init__(self, folders: Folders, run: RunFolder, view: View) -> None:
        self._server_dir = folders.server
        self._address_file = folders.server_address
        self._binding = _binding(folders.server_address)
        self._run = run
        self._view = view

    def trainer(self) -> ServiceSpec:
        """Return the trainer."""
        return ServiceSpec(
            name=TRAINER,
            kind="trainer",
            argv=self._node_argv(TRAINER),
            tier=1,
            log_path=self._run.logs / "trainer.log",
            health=node_health(TRAINER, self._view),
            refusal_code=_REFUSAL_CODE,
            grace_s=_TRAINER_GRACE_S,
            save_grace_s=_SAVE_GRACE_S,
            start_limit_s=_LOAD_LIMIT_S,
            binding=self._binding,
            env=child_env() | SUPERVISED_ENV,
        )

    def telemetry(self) -> ServiceSpec:
        """Return telemetry."""
        return ServiceSpec(
            name=TELEMETRY,
            kind="telemetry",
            argv=self._node_argv(TELEMETRY),
            tier=1,
            log_path=self._run.logs / "telemetry.log",
            health=node_health(TELEMETRY, self._view),
            refusal_code=_REFUSAL_CODE,
            grace_s=_TELEMETRY_GRACE_S,
            binding=self._binding,
            env=child_env() | SUPERVISED_ENV,
        )

    def evaluator(self) -> ServiceSpec:
        """Return the evaluator."""
        return ServiceSpec(
            name=EVALUATOR,
            kind="evaluator",
            argv=self._node_argv(EVALUATOR),
            tier=2,
            log_path=self._run.logs / "evaluator.log",
            health=node_health(EVALUATOR, self._view),
            refusal_code=_REFUSAL_CODE,
            grace_s=_EVALUATOR_GRACE_S,
            live_limit_s=_EVALUATOR_LIVE_S,
            binding=self._binding,
            env=child_env() | SUPERVISED_ENV,
        )

    def client(self, name: str) -> ServiceSpec:
        """Return one of the clients that the server starts itself: it knows its own secret alone."""
        address_file = local_address_file(self._server_dir, name)
        return ServiceSpec(
            name=name,
            kind="client",
            argv=(*own_command("client"), "--name", name, "--server-file", str(address_file)),
            tier=2,
            log_path=self._run.logs / f"{name}.log",
            health=client_health(name, self._view),
            binding=_binding(address_file),
            env=child_env() | SUPERVISED_ENV,
        )

    def _node_argv(self, role: str) -> tuple[str, ...]:
        return (*own_command(role), "--run", str(self._run.root), "--server-file", str(self._address_file))
