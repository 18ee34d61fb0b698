"""Settings of the server and of the runner."""

from typing import Literal

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
