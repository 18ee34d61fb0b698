"""What the banner says of each state of the connection, and what can be done about it. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr


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


@dataclass(frozen=True)
class Connection:
    """The state with what there is to say about it.

    Attributes:
        state: The state.
        server: Name of the server on screen.
        phase: What the runner is doing while it starts.
        since: When the data on screen was last right, seconds since the epoch; None when never.
        detail: What the system said, in words.
        config: The file of settings whose mistakes keep the runner from starting; None for another reason.
    """

    state: ConnectionState
    server: str = ""
    phase: str = ""
    since: float | None = None
    detail: str = ""
    config: Path | None = None

    @property
    def live(self) -> bool:
        """Whether what is on screen is the present."""
        return self.state in (ConnectionState.NO_RUN, ConnectionState.CONNECTED, ConnectionState.REDIS_DOWN)

    @property
    def commands_possible(self) -> bool:
        """Whether a command would reach the runner."""
        return self.live


@dataclass(frozen=True)
class BannerWords:
    """A banner's look and words.

    Attributes:
        icon: Name of its icon.
        tone: Its colour.
        title: What is the matter.
        detail: Why, and what happens meanwhile.
        action: Words of the main button; empty for none.
    """

    icon: str
    tone: Tone
    title: str
    detail: str = ""
    action: str = ""


def banner_words(connection: Connection, now: float) -> BannerWords | None:
    """Return what the banner says, None when there is nothing to say.

    Args:
        connection: The state.
        now: Seconds since the epoch.
    """
    server = connection.server or tr("the server")
    maker = _BANNERS.get(connection.state)
    return maker(connection, server, now) if maker else None


def _starting(connection: Connection, server: str, now: float) -> BannerWords:
    phase = connection.phase or tr("starting the runner")
    return BannerWords("state-busy", Tone.BUSY, tr("Starting: {phase} …").format(phase=phase))


def _start_failed(connection: Connection, server: str, now: float) -> BannerWords:
    if connection.config is not None:
        title = tr("The configuration has mistakes")
        return BannerWords("state-bad", Tone.BAD, title, connection.detail, tr("Mend it…"))
    title = tr("The runner could not be started")
    return BannerWords("state-bad", Tone.BAD, title, connection.detail, tr("Try again"))


def _connecting(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("Connecting to {server} …").format(server=server)
    return BannerWords("state-busy", Tone.BUSY, title, connection.detail)


def _reconnecting(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("Connection to {server} lost, trying again …").format(server=server)
    detail = ""
    if connection.since is not None:
        detail = tr("Data as of {time}. Training goes on without this window.").format(
            time=text.clock(connection.since, now)
        )
    return BannerWords("state-retry", Tone.WARNING, title, detail, tr("Try now"))


def _redis_down(connection: Connection, server: str, now: float) -> BannerWords:
    detail = connection.detail or tr("The runner starts it again; clients keep their samples meanwhile.")
    return BannerWords("state-bad", Tone.BAD, tr("Redis is down"), detail, tr("Show its log"))


def _runner_gone(connection: Connection, server: str, now: float) -> BannerWords:
    detail = tr("Its services go on by themselves. Taking over starts a new runner that adopts them.")
    return BannerWords("state-warning", Tone.WARNING, tr("The runner is gone"), detail, tr("Take over"))


def _shut_down(connection: Connection, server: str, now: float) -> BannerWords:
    detail = tr("It was ended on purpose. Its runs can be resumed once it is started again.")
    return BannerWords("power", Tone.IDLE, tr("The server is shut down"), detail, tr("Start it"))


def _wrong_token(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("{server} does not accept this window's token").format(server=server)
    detail = tr("The runner was started anew, or belongs to another user.")
    return BannerWords("state-refused", Tone.BAD, title, detail, tr("Read the token again"))


def _not_allowed(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("Not allowed to steer {server}").format(server=server)
    return BannerWords("state-refused", Tone.BAD, title, connection.detail, tr("Try again"))


def _too_old(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("This window is too old for {server}").format(server=server)
    return BannerWords("state-warning", Tone.WARNING, title, connection.detail, tr("How to update"))


def _too_new(connection: Connection, server: str, now: float) -> BannerWords:
    title = tr("{server} is too old for this window").format(server=server)
    return BannerWords("state-warning", Tone.WARNING, title, connection.detail, tr("How to update"))


_BANNERS = {
    ConnectionState.STARTING: _starting,
    ConnectionState.START_FAILED: _start_failed,
    ConnectionState.CONNECTING: _connecting,
    ConnectionState.RECONNECTING: _reconnecting,
    ConnectionState.REDIS_DOWN: _redis_down,
    ConnectionState.RUNNER_GONE: _runner_gone,
    ConnectionState.SHUT_DOWN: _shut_down,
    ConnectionState.WRONG_TOKEN: _wrong_token,
    ConnectionState.NOT_ALLOWED: _not_allowed,
    ConnectionState.TOO_OLD: _too_old,
    ConnectionState.TOO_NEW: _too_new,
}


def why_not(connection: Connection) -> str:
    """Return why commands can't be sent now; empty when they can."""
    if connection.commands_possible:
        return ""
    if connection.state is ConnectionState.WELCOME:
        return tr("No server runs here.")
    if connection.state is ConnectionState.SHUT_DOWN:
        return tr("The server is shut down: start it first.")
    if connection.state in (ConnectionState.STARTING, ConnectionState.CONNECTING):
        words = banner_words(connection, 0.0)
        assert words is not None
        return words.title
    server = connection.server or tr("the server")
    return tr("Not connected to {server}.").format(server=server)


def how_to_end_older() -> tuple[str, str]:
    """Return what to do where the runner is older than the window, and how that is typed."""
    return (
        tr("The runner was started by an older SoulsGUI. End it, then let this window start a new one."),
        tr("Type: soulsgui shutdown. It saves the run first; Resume goes on with it."),
    )
