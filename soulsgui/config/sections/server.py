"""Settings of the server, of the runner and of the clients."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from soulsgui.config.declaring import Effect, Section, setting


class RedisSettings(Section, effect=Effect.RESTART_RUNNER):
    """The Redis server between the processes."""

    host: str = setting(
        "127.0.0.1",
        "Loopback address for clients on this machine.",
        min_length=1,
    )
    lan: bool = setting(
        False,
        "Let other computers in at this machine's private addresses (home, office, VPN), each with its own "
        "invitation. Everything is encrypted (TLS 1.3).",
    )
    public: bool = setting(
        False,
        "Let other computers in at this machine's public addresses, too. Needs redis.lan.",
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = setting(
        0, "Port for clients; 0 chooses a free one and keeps it."
    )
    binary: str = setting(
        "", "Path of the server program; empty looks for valkey-server, redis-server, then the included one."
    )
    url: str = setting(
        "",
        "An existing Redis or Valkey, such as `redis://:PASSWORD@127.0.0.1:6379` (`rediss` if it is "
        "encrypted), used by this server alone; empty starts one.",
        secret=True,
    )
    max_memory: Annotated[int, Field(ge=2**24)] = setting(
        512 * 2**20,
        "Memory limit of Redis; half of it is shared between clients as credits.",
        unit="bytes",
    )
    prefix: str = setting("souls:", "Prefix of every key on the server.", pattern=r"^[A-Za-z0-9_.-]+:$")


class ControlSettings(Section, effect=Effect.RESTART_RUNNER):
    """The runner's control interface."""

    port: Annotated[int, Field(ge=0, le=65_535)] = setting(
        0, "Port of the control interface; 0 chooses a free one and keeps it."
    )


class ExporterSettings(Section, effect=Effect.RESTART_RUNNER):
    """What Prometheus and Grafana read."""

    enabled: bool = setting(
        False, "Answer Prometheus (`/metrics`) and Grafana (as a JSON data source) on a separate port."
    )
    host: str = setting(
        "127.0.0.1",
        "Address of this machine where it answers. On loopback anybody on this machine may read it; at a "
        "private address, whoever sends the token in `exporter.token` of the configuration folder, "
        "unencrypted.",
        min_length=1,
    )
    port: Annotated[int, Field(ge=1, le=65_535)] = setting(9478, "Port where it answers.")


ALERTS = ("goal", "no_progress", "client_lost", "disk_low", "divergence", "given_up")


class AlertSettings(Section, effect=Effect.SAVED):
    """Alerts that are sent to a webhook."""

    webhook: str = setting(
        "",
        "Address that alerts are sent to (a secret); empty: none are sent.",
        secret=True,
        pattern=r"^(https?://\S+)?$",
    )
    format: Literal["generic", "ntfy", "discord", "slack"] = setting(
        "generic", "Kind of webhook; `generic` gets the event as JSON."
    )
    on: list[Literal["goal", "no_progress", "client_lost", "disk_low", "divergence", "given_up"]] = setting(
        list(ALERTS),
        "Which alerts are sent: a goal was reached, a run makes no progress, a client is lost, the disk is "
        "low, the training has diverged, a service or the run was given up.",
    )
    per_hour: Annotated[int, Field(ge=1, le=1000)] = setting(
        20,
        "Most alerts in an hour; the next one says how many were left out. The same alert is sent once in "
        "10 min.",
    )
    no_progress_minutes: Annotated[float, Field(ge=0, le=100_000)] = setting(
        30.0,
        "Minutes without a step or an update after which a run counts as making no progress; 0: never.",
        unit="min",
    )


class LoggingSettings(Section, effect=Effect.RESUME, to_clients=True):
    """What is written into the logs."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "Lowest level of messages that are written."
    )


class ClientsSettings(Section):
    """The clients this server starts itself."""

    local: Annotated[int, Field(ge=0, le=1024)] = setting(
        2,
        "Number of clients that the server starts on its own machine.",
        effect=Effect.RESUME,
        unit="clients",
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


class ClientSettings(Section, to_clients=True):
    """How a client samples."""

    segment_length: Annotated[int, Field(ge=1, le=65_536)] = setting(
        256, "Most steps of an episode that are sent as one segment.", unit="steps"
    )
    segment_seconds: Annotated[float, Field(gt=0, le=60)] = setting(
        0.1, "Longest time an asynchronous algorithm's samples are held back to be sent together.", unit="s"
    )
    when_full: Literal["wait", "drop_oldest"] | None = setting(
        None,
        "What to do while the server accepts no more samples: `wait` between two steps, or keep playing "
        "and drop the oldest ones. Empty drops in real-time games (`client.step_seconds`), which can't "
        "wait, and waits otherwise. Rounds of PPO always wait; while the run is paused, all wait except "
        "real-time games. Samples that became too old while the server was away are always dropped.",
    )
    buffer_bytes: Annotated[int, Field(ge=2**16)] = setting(
        64 * 2**20, "Memory for samples that wait to be sent while the server is away or slow.", unit="bytes"
    )
    workers: Annotated[int, Field(ge=0, le=256)] = setting(
        0,
        "Processes that a client spreads its environments over: they step at the same time, and one that "
        "hangs is restarted without ending the client. 0 steps them in its own process, which is best for "
        "fast ones.",
        unit="processes",
    )
    step_seconds: Annotated[float, Field(ge=0, le=60)] = setting(
        0.0,
        "For real-time games: time between the starts of two steps, by a fixed clock; late steps are "
        "counted. 0 steps as fast as possible.",
        unit="s",
    )
    step_delay: Annotated[float, Field(ge=0, le=60)] = setting(0.0, "Pause before each step.", unit="s")
    restart_hook: str = setting(
        "",
        "`module:function`, installed on the clients' computers: called without arguments before a failed "
        "environment is created again, for instance to start the game. It has to be marked with "
        "`@soulsgui.sampling.restart_hook`, and may take as long as `client.hang_seconds`.",
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
    )
    hang_seconds: Annotated[float, Field(gt=0, le=86_400)] = setting(
        120.0,
        "An environment that takes longer to be created, to reset or to step counts as hanging: its client "
        "is restarted; in the check before a run the environment is refused.",
        unit="s",
    )
    min_steps_per_s: Annotated[float, Field(ge=0)] = setting(
        0.0,
        "A client that samples more slowly than this for half a minute (or for `client.hang_seconds`, if "
        "that is less) creates its environment again; 0 switches this off.",
        unit="steps/s",
    )
    shown: bool = setting(
        False,
        "Allow whoever watches this server to see the games of its local clients, in small pictures. What "
        "invited computers show is up to their owners.",
    )
    max_memory: Annotated[int | None, Field(ge=2**26)] = setting(
        None,
        "A client that uses more memory than this, including everything its environment started, is "
        "restarted; empty means half of its machine's memory.",
        unit="bytes",
    )
