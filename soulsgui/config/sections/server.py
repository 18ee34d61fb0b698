"""Settings of the server, of the runner and of the clients."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import field_validator

from soulsgui.config.declaring import Effect, Section, setting


class RedisSettings(Section):
    """The server that carries everything between the processes."""

    host: str = setting(
        "127.0.0.1",
        "Address the server's own processes reach it at. Only addresses of this machine itself are accepted.",
        effect=Effect.RESTART_RUNNER,
        min_length=1,
    )
    lan: bool = setting(
        False,
        "Whether the server also listens on this machine's private addresses (home, office, VPN), where each "
        "computer needs an invitation of its own. Only with redis.tls is encrypted what is sent there.",
        effect=Effect.RESTART_RUNNER,
    )
    tls: bool = setting(
        False,
        "Whether everything that goes to and from the server is encrypted (TLS). The server makes itself a "
        "certificate once, and invitations name it: after a change, issue them anew.",
        effect=Effect.RESTART_RUNNER,
    )
    public: bool = setting(
        False,
        "Whether the server also listens on this machine's addresses that are not private. Needs redis.lan "
        "and redis.tls: nothing goes there unencrypted.",
        effect=Effect.RESTART_RUNNER,
    )
    port: int = setting(
        0,
        "Port the server listens on; 0 takes any free one and keeps to it.",
        effect=Effect.RESTART_RUNNER,
        ge=0,
        le=65_535,
    )
    binary: str = setting(
        "",
        "Path of the server program; empty looks for valkey-server, redis-server, then the packaged one.",
        effect=Effect.RESTART_RUNNER,
    )
    max_memory: int = setting(
        512 * 2**20,
        "Memory limit of the server; half of it is shared out to clients as credits.",
        effect=Effect.RESTART_RUNNER,
        unit="bytes",
        ge=2**24,
    )
    prefix: str = setting(
        "souls:",
        "First part of every key on the server.",
        effect=Effect.RESTART_RUNNER,
        pattern=r"^[A-Za-z0-9_.-]+:$",
    )


class ControlSettings(Section):
    """The runner's control interface, on this machine only."""

    port: int = setting(
        0,
        "Port of the control interface; 0 takes any free one and keeps to it.",
        effect=Effect.RESTART_RUNNER,
        ge=0,
        le=65_535,
    )


class LoggingSettings(Section):
    """What the log files hold."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Least important kind of message that is written.", effect=Effect.RESUME, to_clients=True
    )


class ClientsSettings(Section):
    """The clients this server starts itself, and what it expects of all of them."""

    local: int = setting(
        2,
        "Clients that the server starts on its own machine.",
        effect=Effect.RESUME,
        unit="clients",
        ge=0,
        le=1024,
    )
    min_versions: dict[str, str] = setting(
        {},
        "Oldest version of each package that a client may run, such as `{soulsgui: 0.2.0, soulsgym: 1.3}`; "
        "an older client is told what to update.",
        to_clients=True,
    )

    @field_validator("min_versions", mode="before")
    @classmethod
    def _versions_in_words(cls, value: Any) -> Any:
        """Take versions that look like numbers as what they mean."""
        if not isinstance(value, Mapping):
            return value
        for package, version in value.items():
            if isinstance(version, bool) or not re.match(r"\d", str(version)):
                raise ValueError(f"should name a version such as 1.2.3 for {package}, not {version}")
        return {package: str(version) for package, version in value.items()}


class ClientSettings(Section):
    """How a client samples."""

    segment_length: int = setting(
        256,
        "Longest piece of an episode that is sent as one segment.",
        unit="steps",
        to_clients=True,
        ge=1,
        le=65_536,
    )
    segment_seconds: float = setting(
        0.1,
        "Longest time an asynchronous algorithm's samples are held back to be sent together.",
        unit="s",
        to_clients=True,
        gt=0,
        le=60,
    )
    when_full: Literal["wait", "drop_oldest"] = setting(
        "wait",
        "What to do while the server takes no more samples: `wait` between two steps, or play on and drop "
        "the oldest ones (for games that can't wait). Rounds of PPO always wait; so does everybody while the "
        "run is paused, but games in real time (`client.step_seconds`).",
        to_clients=True,
    )
    buffer_bytes: int = setting(
        64 * 2**20,
        "Memory for samples that wait to be sent while the server is away or slow.",
        unit="bytes",
        to_clients=True,
        ge=2**16,
    )
    workers: int = setting(
        0,
        "Processes that a client spreads its environments over: they step at the same time, and one that "
        "hangs is mended without ending the client. 0 steps them in its own process, best for quick ones.",
        unit="processes",
        to_clients=True,
        ge=0,
        le=256,
    )
    step_seconds: float = setting(
        0.0,
        "Games in real time: a step begins so long after the one before, by a fixed clock; steps that come "
        "late are counted. 0 steps as fast as it goes.",
        unit="s",
        to_clients=True,
        ge=0,
        le=60,
    )
    step_delay: float = setting(
        0.0,
        "Pause before each step.",
        unit="s",
        to_clients=True,
        ge=0,
        le=60,
    )
    restart_hook: str = setting(
        "",
        "`module:function`, installed on the clients' computers: called without arguments before an "
        "environment that failed is made anew, for instance to start the game. It may take "
        "`client.hang_seconds`.",
        to_clients=True,
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
    )
    hang_seconds: float = setting(
        120.0,
        "An environment that takes longer to be made, to reset or to step hangs: its client is ended and "
        "started again; in the check before a run it is refused.",
        unit="s",
        to_clients=True,
        gt=0,
        le=86_400,
    )
    min_steps_per_s: float = setting(
        0.0,
        "A client that samples more slowly than this for half a minute (or for `client.hang_seconds`, where "
        "that is less) makes its environment anew; 0 switches it off.",
        unit="steps/s",
        to_clients=True,
        ge=0,
    )
    max_memory: int | None = setting(
        None,
        "A client that uses more memory than this, with everything its environment started, is ended and "
        "started again; empty means half of its machine's.",
        unit="bytes",
        to_clients=True,
        ge=2**26,
    )
