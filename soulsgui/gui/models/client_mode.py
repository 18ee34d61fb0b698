"""What the page of client mode says of each state, and what its owner can do in it. Pure."""

from dataclasses import dataclass

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.connection_state import Connection, ConnectionState, banner_words
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_server import (
    how_to_update,
    lack_words,
    server_is_older,
    update_title,
)
from soulsgui.gui.states import Look, run_is_active
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, ServiceStatus, Status
from soulsgui.wire.messages.neighbour import Held
from soulsgui.wire.situation import CLIENT, Situation, situation

_QUIET_END = "ended as asked"
_WORTH_TELLING_BYTES = 10_000
_OFF = (ConnectionState.WELCOME, ConnectionState.SHUT_DOWN)


@dataclass(frozen=True)
class ClientWords:
    """What there is to say.

    Attributes:
        look: Icon, tone and the state in words.
        detail: Why, and what happens next.
        on: Whether this computer helps, or is about to.
        wish: What its owner wants of it now (`wire.messages.owner.OwnerState`); empty while it is off.
        ends: Whether a pause of its owner's ends by itself.
        update: Whether this computer has to be updated before it can play.
    """

    look: Look
    detail: str = ""
    on: bool = False
    wish: str = ""
    ends: bool = False
    update: bool = False


def client_words(
    connection: Connection, status: Status, now: float, run_ended: bool = False, on_wanted: bool = False
) -> ClientWords:
    """Return the state of client mode in words.

    Args:
        connection: How the window stands with the runner of client mode.
        status: What that runner told last.
        now: Seconds since the epoch.
        run_ended: Whether the run it played for last is known to have ended.
        on_wanted: Whether it is to help as soon as its runner is there.
    """
    if not connection.live:
        return _without_runner(connection, now, on_wanted)
    service = next((one for one in status.services if one.kind == CLIENT), None)
    client = status.clients[0] if status.clients else None
    if service is None or service.state == "stopped":
        ended = service.outcome if service is not None and service.outcome != _QUIET_END else ""
        detail = ended or _how_to_join(status.server)
        return ClientWords(_look("state-idle", Tone.IDLE, tr("Not joined")), detail, on=on_wanted)
    wish = client.wish if client is not None else "run"
    if run_ended:
        # The client itself only knows that nothing is asked of it.
        status = status.model_copy(update={"run": RunStatus()})
    look, detail = _with_service(service, client, status, now)
    ends = client is not None and client.paused_until is not None
    on = service.state not in ("stopping", "failed")
    return ClientWords(look, detail, on, wish, ends, client is not None and needs_update(client))


def needs_update(client: ClientStatus) -> bool:
    """Return whether this computer, not its server, has to be updated."""
    return client.checks.get("version") is False and not server_is_older(client.lacks)


def run_has_ended(server: Connection, run: RunStatus, played_for: str) -> bool:
    """Return whether the run that was played for is known to have ended.

    Args:
        server: How the window stands with the server's own runner.
        run: What that runner says of its run.
        played_for: Id of the run that the client plays for.
    """
    return server.live and run.id == played_for and not run_is_active(run.state)


def _without_runner(connection: Connection, now: float, on_wanted: bool) -> ClientWords:
    state = connection.state
    if state in _OFF:
        return ClientWords(_look("state-idle", Tone.IDLE, tr("Not joined")), _how_to_join(None))
    if state is ConnectionState.RUNNER_GONE:
        detail = tr("What watched over the client ended unexpectedly; the client has stopped by itself.")
        return ClientWords(_look("state-warning", Tone.WARNING, tr("Not joined")), detail)
    if state in (ConnectionState.STARTING, ConnectionState.CONNECTING):
        detail = connection.phase or connection.detail
        word = tr("Connecting …") if on_wanted else tr("Getting ready …")
        return ClientWords(_look("state-busy", Tone.BUSY, word), detail, on=on_wanted)
    words = banner_words(connection, now)
    assert words is not None
    on = state is ConnectionState.RECONNECTING
    return ClientWords(_look(words.icon, words.tone, words.title), words.detail, on=on)


def _with_service(
    service: ServiceStatus, client: ClientStatus | None, status: Status, now: float
) -> tuple[Look, str]:
    """Return look and detail of a client that is up, comes up, goes down, or has failed."""
    reason = client.error if client is not None else ""
    where = situation(status)
    if client is not None and where is Situation.MISFIT:
        look = _look("state-warning", Tone.WARNING, update_title(client.lacks))
        needs = lack_words(client.lacks) or reason or service.outcome
        return look, f"{needs} {how_to_update(client.lacks)}".strip()
    if where is Situation.REVOKED:
        return _look("state-refused", Tone.BAD, tr("Revoked")), reason
    if where is Situation.FAILED:
        look = _look("state-bad", Tone.BAD, tr("Stopped after {n} failures").format(n=service.failures))
        return look, reason or service.outcome
    if where is Situation.STOPPING:
        return _look("state-stopping", Tone.BUSY, tr("Stopping …")), ""
    if client is not None and where is Situation.PAUSED_BY_OWNER:
        word = _paused_words(client.paused_until, now)
        return _look("state-paused", Tone.PAUSED, word), _away_words(status.server, now)
    if client is not None and client.held and where is Situation.HELD:
        return _held(client.held), _held_words(client.held_until, now)
    if where is Situation.RETRYING:
        seconds = text.about(service.restart_in_s or 0.0)
        look = _look("state-retry", Tone.WARNING, tr("Trying again in {time}").format(time=seconds))
        return look, reason or service.outcome
    if client is not None and service.state == "running":
        return _playing(where, client, status.server, now)
    return _not_there_yet(status.server, now)


def _held(why: Held) -> Look:
    words = {
        "full_screen": tr("Paused: full-screen program"),
        "busy": tr("Paused: somebody is at the computer"),
        "hours": tr("Paused: outside the hours"),
    }
    return _look("state-paused", Tone.PAUSED, words[why])


def _held_words(until: float | None, now: float) -> str:
    if until is None:
        return tr("It plays on by itself when that is over.")
    return tr("It plays on by itself at {time}.").format(time=text.until(until, now))


def _paused_words(until: float | None, now: float) -> str:
    if until is None:
        return tr("Paused by you")
    return tr("Paused by you until {time}").format(time=text.until(until, now))


def _playing(where: Situation, client: ClientStatus, server: ServerStatus, now: float) -> tuple[Look, str]:
    """Return look and detail of a client that is up, by what it says of itself."""
    if where is Situation.CUT_OFF:
        return _look("state-refused", Tone.BAD, tr("Cut off")), client.error
    if where is Situation.SILENT:
        age = text.about(client.age_s)
        look = _look("state-warning", Tone.WARNING, tr("The game does not answer"))
        return look, tr("No sign of life for {time}.").format(time=age)
    if where is Situation.FINISHING:
        pauses = client.wish == "pause_after_episode"
        then = tr("Pauses after it.") if pauses else tr("Stops after it.")
        return _look("state-draining", Tone.BUSY, tr("Finishing episode …")), then
    if where is Situation.AWAY:
        return _away(client, server, now)
    if where is Situation.PAUSED_BY_SERVER:
        return _look("state-paused", Tone.PAUSED, tr("Paused by the server")), ""
    if where is Situation.PLAYING:
        number = text.count(client.episodes + 1)
        return _look("state-good", Tone.GOOD, tr("Playing, episode {n}").format(n=number)), client.env_id
    if where is Situation.BETWEEN_ROUNDS:
        word = tr("Waiting for the server")
        return _look("state-waiting", Tone.BUSY, word), tr("No round goes on at present.")
    if where is Situation.WITHOUT_RUN:
        return _look("state-waiting", Tone.BUSY, tr("Waiting for a run")), _waiting_words()
    return _not_there_yet(server, now)


def _not_there_yet(server: ServerStatus, now: float) -> tuple[Look, str]:
    if server.reachable:
        return _look("state-busy", Tone.BUSY, tr("Connecting …")), ""
    return _away(None, server, now)


def _away(client: ClientStatus | None, server: ServerStatus, now: float) -> tuple[Look, str]:
    look = _look("state-lost", Tone.WARNING, _away_title(server, now))
    detail = f"{server.error} {tr('It is tried again all the time.')}".strip()
    if client is not None and client.buffered >= _WORTH_TELLING_BYTES:
        waits = tr("{size} of play wait for it.").format(size=text.size(client.buffered))
        detail = f"{waits} {detail}"
    return look, detail


def _away_title(server: ServerStatus, now: float) -> str:
    if server.changed_at is None:
        return tr("Server away")
    return tr("Server away since {time}").format(time=text.clock(server.changed_at, now))


def _away_words(server: ServerStatus, now: float) -> str:
    return "" if server.reachable else _away_title(server, now)


def _how_to_join(server: ServerStatus | None) -> str:
    if server is not None and server.name:
        return tr("Switch on, and this computer plays for {server}.").format(server=server.name)
    return tr("Open an invitation, or switch on to play for the server that runs on this computer.")


def _waiting_words() -> str:
    return tr("It plays as soon as one is started on the server.")


def _look(icon: str, tone: Tone, word: str) -> Look:
    return Look(icon, tone, word)


# --- beside the state ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One thing that must be well before this computer can play.

    Attributes:
        name: Its name among `ClientStatus.checks`.
        look: Whether it is, in icon and words.
    """

    name: str
    look: Look


def checks(client: ClientStatus | None) -> list[Check]:
    """Return what was looked at, in the order in which it is looked at."""
    found = client.checks if client is not None else {}
    words = {
        "configuration": (
            tr("Configuration received"),
            tr("No configuration yet"),
            tr("Configuration not received"),
        ),
        "version": (tr("Version fits"), tr("Version not compared yet"), tr("Version does not fit")),
        "environment": (
            tr("Environment found"),
            tr("Environment not looked for yet"),
            tr("Environment not found"),
        ),
        "network": (
            tr("Network agrees"),
            tr("Network not compared yet"),
            tr("Network gives other numbers"),
        ),
    }
    result = []
    for name, (well, unknown, bad) in words.items():
        good = found.get(name)
        if good is None:
            look = _look("state-idle", Tone.IDLE, unknown)
        else:
            look = _look("state-good", Tone.GOOD, well) if good else _look("state-bad", Tone.BAD, bad)
        result.append(Check(name, look))
    return result


def why_not_pause(words: ClientWords) -> str:
    """Return why there is nothing to pause; empty when there is."""
    if not words.on or not words.wish:
        return tr("This computer does not play at present.")
    return tr("It is paused already.") if words.wish == "pause" and not words.ends else ""


def why_not_pause_for(words: ClientWords) -> str:
    """Return why it can't be paused for a time; empty when it can, also for another time than before."""
    return "" if words.on and words.wish else tr("This computer does not play at present.")


def why_not_pause_later(words: ClientWords) -> str:
    """Return why it can't be paused after the episode; empty when it can."""
    if words.wish == "pause":
        return tr("It is paused already.")
    if reason := why_not_pause(words):
        return reason
    return tr("It pauses after this episode.") if words.wish == "pause_after_episode" else ""


def why_not_resume(words: ClientWords) -> str:
    """Return why there is nothing to go on with; empty when there is."""
    if not words.on or words.wish not in ("pause", "pause_after_episode"):
        return tr("It is not paused by you.")
    return ""
