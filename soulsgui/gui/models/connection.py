"""What the banner says of each state of the connection, and what can be done about it. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.gui import text
from soulsgui.gui.colours import Tone


class ConnectionState(StrEnum):
    """How this window stands with its runner."""

    WELCOME = "welcome"
    STARTING = "starting"
    START_FAILED = "start_failed"
    CONNECTING = "connecting"
    NO_RUN = "no_run"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    REDIS_DOWN = "redis_down"
    RUNNER_GONE = "runner_gone"
    SHUT_DOWN = "shut_down"
    WRONG_TOKEN = "wrong_token"
    NOT_ALLOWED = "not_allowed"
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"
    SSH_REFUSED = "ssh_refused"


_MOST_CHARACTERS = 500


@dataclass(frozen=True)
class RemoteServer:
    """A server of another computer: how `ssh` is to find it, and the command of SoulsGUI there.

    Raises:
        UsageError: `ssh` would take it for something else.
    """

    host: str
    command: str = "soulsgui"

    def __post_init__(self) -> None:
        for what, words in (("host", self.host), ("command", self.command)):
            if not words or words.startswith("-") or len(words) > _MOST_CHARACTERS or not words.isprintable():
                raise UsageError(f"“{text.plain(words)}” is no {what}.", f"A {what} begins with no dash.")
        if " " in self.host:
            raise UsageError(
                "A host has no spaces.", "Write it as ssh does: name, user@name, ssh://name:port"
            )


@dataclass(frozen=True)
class Connection:
    """The state with what there is to say about it."""

    state: ConnectionState
    server: str = ""
    phase: str = ""  # what the runner is doing while it starts
    since: float | None = None  # when the data on screen was last right, seconds since the epoch
    detail: str = ""
    config: Path | None = None  # the file of settings whose mistakes keep the runner from starting

    @property
    def live(self) -> bool:
        """Whether what is on screen is the present, and a command would reach the runner."""
        return self.state in (ConnectionState.NO_RUN, ConnectionState.CONNECTED, ConnectionState.REDIS_DOWN)

    @property
    def coming(self) -> bool:
        """Whether a runner is being started or asked for the first time."""
        return self.state in (ConnectionState.STARTING, ConnectionState.CONNECTING)

    @property
    def off(self) -> bool:
        """Whether no runner is wanted: none was started yet, or it was ended on purpose."""
        return self.state in (ConnectionState.WELCOME, ConnectionState.SHUT_DOWN)


@dataclass(frozen=True)
class BannerWords:
    """A banner's look and words; `action` stands on its main button, empty for none."""

    icon: str
    tone: Tone
    title: str
    detail: str = ""
    action: str = ""


def banner_words(connection: Connection, now: float) -> BannerWords | None:
    """Return what the banner says, None when there is nothing to say."""
    server, detail = connection.server or "the server", connection.detail
    match connection.state:
        case ConnectionState.STARTING:
            phase = connection.phase or "starting the runner"
            return BannerWords("state-busy", Tone.BUSY, f"Starting: {phase} …")
        case ConnectionState.START_FAILED:
            if connection.config is not None:
                title = "The server can't start as it is configured"
                return BannerWords("state-bad", Tone.BAD, title, detail, "Fix it…")
            return BannerWords("state-bad", Tone.BAD, "The runner could not be started", detail, "Try again")
        case ConnectionState.CONNECTING:
            return BannerWords("state-busy", Tone.BUSY, f"Connecting to {server} …", detail)
        case ConnectionState.RECONNECTING:
            title = f"Connection to {server} lost, trying again …"
            as_of = ""
            if connection.since is not None:
                moment = text.clock(connection.since, now)
                as_of = f"Data as of {moment}. Training continues without this window."
            return BannerWords("state-retry", Tone.WARNING, title, as_of, "Try now")
        case ConnectionState.REDIS_DOWN:
            detail = detail or "The runner starts it again; clients keep their samples meanwhile."
            return BannerWords("state-bad", Tone.BAD, "Redis is down", detail, "Show its log")
        case ConnectionState.RUNNER_GONE:
            detail = "Its services keep running. Taking over starts a new runner that adopts them."
            return BannerWords("state-warning", Tone.WARNING, "The runner is gone", detail, "Take over")
        case ConnectionState.SHUT_DOWN:
            detail = "It was ended on purpose. Its runs can be resumed once it is started again."
            return BannerWords("power", Tone.IDLE, "The server is shut down", detail, "Start it")
        case ConnectionState.WRONG_TOKEN:
            title = f"{server} does not accept this window's token"
            detail = "The runner was restarted, or belongs to another user."
            return BannerWords("state-refused", Tone.BAD, title, detail, "Read the token again")
        case ConnectionState.NOT_ALLOWED:
            title = f"Not allowed to control {server}"
            return BannerWords("state-refused", Tone.BAD, title, detail, "Try again")
        case ConnectionState.TOO_OLD:
            title = f"This window is too old for {server}"
            return BannerWords("state-warning", Tone.WARNING, title, detail, "How to update")
        case ConnectionState.TOO_NEW:
            title = f"{server} is too old for this window"
            return BannerWords("state-warning", Tone.WARNING, title, detail, "How to update")
        case ConnectionState.SSH_REFUSED:
            return BannerWords("state-refused", Tone.BAD, f"No way to {server}", detail, "Try again")
    return None


def why_not(connection: Connection) -> str:
    """Return why commands can't be sent now; empty when they can."""
    if connection.live:
        return ""
    if connection.state is ConnectionState.WELCOME:
        return "No server runs here."
    if connection.state is ConnectionState.SHUT_DOWN:
        return "The server is shut down: start it first."
    if connection.coming:
        words = banner_words(connection, 0.0)
        return words.title if words is not None else ""
    return f"Not connected to {connection.server or 'the server'}."
