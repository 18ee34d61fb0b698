"""What this computer does as a client and what is said of its server, in words. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.models.connection import Connection, ConnectionState, banner_words
from soulsgui.gui.states import Look, run_is_active
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, ServerTest, ServiceStatus, Status
from soulsgui.wire.control.states import CLIENT, Situation, situation
from soulsgui.wire.messages.owner import Held
from soulsgui.wire.versions import PROTOCOL_NAME, MissingRequirement, server_is_older

_QUIET_END = "ended as asked"
_WORTH_TELLING_BYTES = 10_000


@dataclass(frozen=True)
class ClientWords:
    """What there is to say."""

    look: Look  # icon, tone and the state in words
    detail: str = ""  # why, and what happens next
    on: bool = False  # whether this computer helps, or is about to
    wish: str = ""  # what its owner wants of it now (`wire.messages.owner.OwnerState`); empty while it is off
    ends: bool = False  # whether a pause of its owner's ends by itself
    update: bool = False  # whether this computer has to be updated before it can play
    asked: bool = False  # whether its owner is asked what may run here


def client_words(
    connection: Connection, status: Status, now: float, run_ended: bool = False, on_wanted: bool = False
) -> ClientWords:
    """Return the state of client mode in words."""
    if not connection.live:
        return _without_runner(connection, now, on_wanted)
    service = next((one for one in status.services if one.kind == CLIENT), None)
    client = status.clients[0] if status.clients else None
    if service is None or service.state == "stopped":
        ended = service.outcome if service is not None and service.outcome != _QUIET_END else ""
        detail = ended or _how_to_join(status.server)
        return ClientWords(Look("state-idle", Tone.IDLE, "Not joined"), detail, on=on_wanted)
    wish = client.wish if client is not None else "run"
    if run_ended:
        # The client itself only knows that nothing is asked of it.
        status = status.model_copy(update={"run": RunStatus()})
    look, detail = _with_service(service, client, status, now)
    ends = client is not None and client.paused_until is not None
    on = service.state not in ("stopping", "failed")
    update = client is not None and needs_update(client)
    return ClientWords(look, detail, on, wish, ends, update, situation(status) is Situation.ASKED)


def needs_update(client: ClientStatus) -> bool:
    """Return whether this computer, not its server, has to be updated."""
    return client.checks.get("version") is False and not server_is_older(client.lacks)


def run_has_ended(server: Connection, run: RunStatus, played_for: str) -> bool:
    """Return whether the run that was played for is known to have ended."""
    return server.live and run.id == played_for and not run_is_active(run.state)


def _without_runner(connection: Connection, now: float, on_wanted: bool) -> ClientWords:
    state = connection.state
    if connection.off:
        return ClientWords(Look("state-idle", Tone.IDLE, "Not joined"), _how_to_join(None))
    if state is ConnectionState.RUNNER_GONE:
        detail = "The process that supervises the client ended unexpectedly; the client has stopped."
        return ClientWords(Look("state-warning", Tone.WARNING, "Not joined"), detail)
    if connection.coming:
        detail = f"Starting: {connection.phase}" if connection.phase else connection.detail
        word = "Connecting …" if on_wanted else "Getting ready …"
        return ClientWords(Look("state-busy", Tone.BUSY, word), detail, on=on_wanted)
    words = banner_words(connection, now)
    assert words is not None
    on = state is ConnectionState.RECONNECTING
    return ClientWords(Look(words.icon, words.tone, words.title), words.detail, on=on)


def _with_service(
    service: ServiceStatus, client: ClientStatus | None, status: Status, now: float
) -> tuple[Look, str]:
    """Return look and detail of a client that is up, comes up, goes down, or has failed."""
    reason = client.error if client is not None else ""
    where = situation(status)
    if client is not None and where is Situation.MISFIT:
        look = Look("state-warning", Tone.WARNING, update_title(client.lacks))
        needs = lack_words(client.lacks) or reason or service.outcome
        return look, f"{needs} {how_to_update(client.lacks)}".strip()
    if where is Situation.REVOKED:
        return Look("state-refused", Tone.BAD, "Revoked"), reason
    if where is Situation.FAILED:
        look = Look("state-bad", Tone.BAD, f"Stopped after {service.failures} failures")
        return look, reason or service.outcome
    if where is Situation.STOPPING:
        return Look("state-stopping", Tone.BUSY, "Stopping …"), ""
    if client is not None and where is Situation.PAUSED_BY_OWNER:
        until = client.paused_until
        word = "Paused by you" if until is None else f"Paused by you until {text.until(until, now)}"
        away = "" if status.server.reachable else _away_title(status.server, now)
        return Look("state-paused", Tone.PAUSED, word), away
    if client is not None and client.held and where is Situation.HELD:
        over = (
            "when that is over" if client.held_until is None else f"at {text.until(client.held_until, now)}"
        )
        look = Look("state-paused", Tone.PAUSED, _HELD[client.held])
        return look, f"It continues by itself {over}."
    if where is Situation.RETRYING:
        seconds = text.about(service.restart_in_s or 0.0)
        look = Look("state-retry", Tone.WARNING, f"Trying again in {seconds}")
        return look, reason or service.outcome
    if client is not None and service.state == "running":
        return _playing(where, client, status.server, now)
    return _not_there_yet(status.server, now)


_HELD: dict[Held, str] = {
    "full_screen": "Paused: full-screen program",
    "busy": "Paused: somebody is at the computer",
    "hours": "Paused: outside the hours",
}


def _playing(where: Situation, client: ClientStatus, server: ServerStatus, now: float) -> tuple[Look, str]:
    """Return look and detail of a client that is up, by what it says of itself."""
    if where is Situation.CUT_OFF:
        return Look("state-refused", Tone.BAD, "Cut off"), client.error
    if where is Situation.SILENT:
        age = text.about(client.age_s)
        look = Look("state-warning", Tone.WARNING, "The game does not answer")
        return look, f"No sign of life for {age}."
    if client.asks is not None and where is Situation.ASKED:
        look = Look("state-warning", Tone.WARNING, "The server wants to run something new")
        return look, f"{client.asks.env_id}. It waits until you agree."
    if where is Situation.FINISHING:
        then = "Pauses after it." if client.wish == "pause_after_episode" else "Stops after it."
        return Look("state-draining", Tone.BUSY, "Finishing episode …"), then
    if where is Situation.AWAY:
        return _away(client, server, now)
    if where is Situation.PAUSED_BY_SERVER:
        return Look("state-paused", Tone.PAUSED, "Paused by the server"), ""
    if where is Situation.PLAYING:
        number = text.count(client.episodes + 1)
        return Look("state-good", Tone.GOOD, f"Playing, episode {number}"), client.env_id
    if where is Situation.BETWEEN_ROUNDS:
        look = Look("state-waiting", Tone.BUSY, "Waiting for the server")
        return look, "No round is under way at present."
    if where is Situation.WITHOUT_RUN:
        look = Look("state-waiting", Tone.BUSY, "Waiting for a run")
        return look, "It plays as soon as one is started on the server."
    return _not_there_yet(server, now)


def _not_there_yet(server: ServerStatus, now: float) -> tuple[Look, str]:
    if server.reachable:
        return Look("state-busy", Tone.BUSY, "Connecting …"), ""
    return _away(None, server, now)


def _away(client: ClientStatus | None, server: ServerStatus, now: float) -> tuple[Look, str]:
    look = Look("state-lost", Tone.WARNING, _away_title(server, now))
    detail = f"{server.error} This computer keeps trying.".strip()
    if client is not None and client.buffered >= _WORTH_TELLING_BYTES:
        waits = f"{text.size(client.buffered)} of play wait for it."
        detail = f"{waits} {detail}"
    return look, detail


def _away_title(server: ServerStatus, now: float) -> str:
    if server.changed_at is None:
        return "Server away"
    return f"Server away since {text.clock(server.changed_at, now)}"


def _how_to_join(server: ServerStatus | None) -> str:
    if server is not None and server.name:
        return f"Switch on, and this computer plays for {server.name}."
    return "Open an invitation, or switch on to play for the server that runs on this computer."


@dataclass(frozen=True)
class Check:
    """One thing that must be well before this computer can play."""

    name: str  # its name among `ClientStatus.checks`
    look: Look  # whether it is, in icon and words


# What is said of each check: not made yet, well, not well.
_CHECKS: dict[str, dict[bool | None, str]] = {
    "configuration": {
        None: "No configuration yet",
        True: "Configuration received",
        False: "Configuration not received",
    },
    "version": {None: "Version not compared yet", True: "Version fits", False: "Version does not fit"},
    "environment": {
        None: "Environment not looked for yet",
        True: "Environment found",
        False: "Environment not found",
    },
    "network": {
        None: "Network not compared yet",
        True: "Network agrees",
        False: "Network gives different results",
    },
}


def checks(client: ClientStatus | None) -> list[Check]:
    """Return what is looked at, in its order; there is no network where an inference server has it."""
    found = client.checks if client is not None else {}
    looks = {None: ("state-idle", Tone.IDLE), True: ("state-good", Tone.GOOD), False: ("state-bad", Tone.BAD)}
    result = []
    for name, words in _CHECKS.items():
        if name == "network" and client is not None and client.remote:
            continue
        good = found.get(name)
        result.append(Check(name, Look(*looks[good], words[good])))
    return result


class PauseRefusals(NamedTuple):
    """Why each button of the owner's pause is off; empty for one that is on."""

    now: str
    later: str  # after this episode
    for_a_time: str  # also for another time than before
    resume: str


def pause_refusals(words: ClientWords) -> PauseRefusals:
    """Return which ways of pausing make sense now."""
    off = "" if words.on and words.wish else "This computer does not play at present."
    paused = "It is paused already." if words.wish == "pause" else ""
    waits = "It pauses after this episode." if words.wish == "pause_after_episode" else ""
    return PauseRefusals(
        now=off or ("" if words.ends else paused),
        later=paused or off or waits,
        for_a_time=off,
        resume="" if words.on and (paused or waits) else "It is not paused by you.",
    )


def server_words(status: Status) -> tuple[Look, str]:
    """Return how the server is, and where: `this computer, 127.0.0.1:6379, answers in 3 ms`."""
    server = status.server
    address = server.url.partition("://")[2]
    name = server.name or "this computer"
    where = f"{name}, {address}" if address else name
    if not server.reachable:
        where = f"{where}, not reached"
        return Look("state-lost", Tone.WARNING, "Server"), where
    if server.round_trip_s is not None:
        where = f"{where}, answers in {trip_words(server.round_trip_s)}"
    return Look("state-good", Tone.GOOD, "Server"), where


def trip_words(seconds: float) -> str:
    """Return how long an answer takes: `under 1 ms`, `3 ms`, `12.0 s`."""
    if seconds < 0.001:
        return "under 1 ms"
    return f"{1000 * seconds:,.0f} ms" if seconds < 9.9995 else f"{text.value(seconds)} s"


def trial_words(found: ServerTest, server: str) -> tuple[str, str, str]:
    """Return what came of a test of the server: level of the message, what, and why with what to do."""
    if found.shut_out:
        return (
            "error",
            f"{server} answers, but does not let this computer in.",
            f"{text.sentence(found.error)} Was the invitation revoked? "
            "Ask its owner for a new one and paste it.",
        )
    if not found.address:
        what = f"{server} is not found."
        return "warning", what, text.sentence(found.error)
    trip = trip_words(found.round_trip_s or 0.0)
    what = f"{server} answers at {found.address} in {trip} and lets this computer in."
    if found.lacks:
        return "warning", what, f"{lack_words(found.lacks)} {how_to_update(found.lacks)}"
    if not found.env_id:
        return "success", what, "It has not told yet what it trains."
    return "success", what, f"It trains {found.env_id}; the versions fit."


def lack_words(lacks: list[MissingRequirement]) -> str:
    """Return what a server needs and this computer has, a sentence for each."""
    return " ".join(_lack(lack) for lack in lacks)


def _lack(lack: MissingRequirement) -> str:
    if lack.what == PROTOCOL_NAME:
        sentence = "It speaks protocol {needs}, this computer {has}."
    elif lack.has:
        sentence = "It needs {what} {needs} or newer, this computer has {has}."
    else:
        sentence = "It needs {what} {needs} or newer, which is missing here."
    return sentence.format(what=lack.what, needs=lack.needs, has=lack.has)


def how_to_update(lacks: list[MissingRequirement]) -> str:
    """Return what to do about it: the older side is updated."""
    if server_is_older(lacks):
        return "Ask its owner to update SoulsGUI there; this computer then joins by itself."
    if lacks and all(lack.what not in ("soulsgui", PROTOCOL_NAME) for lack in lacks):
        return "Update it here; it then joins by itself."
    return "Update SoulsGUI on this computer, start it again, and switch on."


def update_title(lacks: list[MissingRequirement]) -> str:
    """Return the state of a computer and a server that don't understand each other."""
    return "Update of the server needed" if server_is_older(lacks) else "Update needed"
