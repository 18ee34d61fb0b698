"""What a service is, and how it is: the two things its supervisor is told by others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

from soulsgui.wire.messages.node import NodePhase

SERVER_KIND = "redis"
"""Kind of the service without which nobody else's signs of life can be seen."""

LONG_PHASES_S: Mapping[str, float] = {"loading": 300.0, "compiling": 600.0, "saving": 300.0}
"""Phases during which a node may be silent for longer than usual, seconds."""

_PHASES: frozenset[str] = frozenset(get_args(NodePhase))


@dataclass(frozen=True)
class Health:
    """What is known of a living service.

    Attributes:
        ready: Whether it does its work (or waits for work).
        tick: Moves while it is alive, and must have moved once before a new process counts as ready; None
            where nothing tells: then being ready is the sign of life.
        phase: What it is doing, a `NodePhase` or empty.
        detail: The same in words.
        farewell: What it said before a clean end.
        error: What is wrong with it, in words.
        disk_full: Whether it is a server that refuses writes because of its disk.
    """

    ready: bool
    tick: int | None = None
    phase: str = ""
    detail: str = ""
    farewell: str = ""
    error: str = ""
    disk_full: bool = False


@dataclass(frozen=True)
class ServiceSpec:
    """What a service is and how patient to be with it.

    Attributes:
        name: Unique name, such as `trainer` or `client-1`.
        kind: `redis`, `trainer`, `telemetry` or `client`.
        argv: Command line; never holds a secret.
        tier: Services of one tier are stopped together, higher tiers first.
        log_path: File that becomes standard output and error.
        health: Cheap and synchronous: reads what somebody else has found out.
        grace_s: Seconds from being asked to stop to being killed.
        save_grace_s: The same while its phase is `saving`.
        start_limit_s: Seconds until it must be ready.
        live_limit_s: Seconds its tick may stand still.
        restart: Whether it is started again when it ends by itself.
        refusal_code: Exit code by which it says that its configuration can't work: then it is not started
            again, and what it said last is told as the cause.
        binding: What beside its command line must be the same for a living process to be adopted: the
            server that it found in its address file.
        env: Variables added to the runner's environment.
        port: Port it listens on, for display.
        repair: Called with the end of the log before a restart; what it did, in words, becomes an event.
        remark: Called with the end of the log once ready; what it finds worth saying becomes an event.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    tier: int
    log_path: Path
    health: Callable[[], Health]
    grace_s: float = 4.0
    save_grace_s: float = 60.0
    start_limit_s: float = 60.0
    live_limit_s: float = 30.0
    restart: bool = True
    refusal_code: int | None = None
    binding: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    repair: Callable[[Sequence[str]], str] | None = None
    remark: Callable[[Sequence[str]], str] | None = None


def known_phase(phase: str) -> NodePhase | Literal[""]:
    """Return a phase as a status holds it: what a check says is free text, and not all of it is one."""
    return cast(NodePhase, phase) if phase in _PHASES else ""
