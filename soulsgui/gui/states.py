"""How each state looks: an icon's shape, a word and a tone. Never a colour alone."""

from collections.abc import Iterable
from dataclasses import dataclass

from soulsgui.gui.colours import Tone
from soulsgui.wire.control import ClientStatus, InvitationList
from soulsgui.wire.invitation import place_words
from soulsgui.wire.keys import inference_number

_RUN_GOES_ON = frozenset({"starting", "waiting", "running", "paused", "saving", "frozen"})
_CLIENT_IS_HERE = frozenset({"joining", "waiting", "online", "late", "paused", "draining"})
_CLIENT_IS_NOT_EXPECTED = frozenset({"invited", "lost", "left", "refused", "revoked"})


@dataclass(frozen=True)
class Look:
    """A state on screen; in lists the lowest rank comes first: what needs attention."""

    icon: str
    tone: Tone
    word: str
    rank: int = 5


_SERVICE = {
    "stopped": Look("state-idle", Tone.IDLE, "Stopped", 6),
    "starting": Look("state-busy", Tone.BUSY, "Starting", 3),
    "running": Look("state-good", Tone.GOOD, "Running", 4),
    "stopping": Look("state-stopping", Tone.BUSY, "Stopping", 3),
    "backoff": Look("state-retry", Tone.WARNING, "Restarting", 1),
    "failed": Look("state-bad", Tone.BAD, "Failed", 0),
}


def service_look(state: str) -> Look:
    """Return the look of a service's state (`wire.control.ServiceState`)."""
    return _SERVICE.get(state) or _unknown(state)


_PHASES = {
    "loading": "Loading",
    "waiting": "Waiting",
    "collecting": "Collecting",
    "updating": "Updating",
    "evaluating": "Evaluating",
    "compiling": "Compiling",
    "saving": "Saving",
    "paused": "Paused",
    "frozen": "Frozen",
    "stopping": "Stopping",
}


def phase_word(phase: str) -> str:
    """Return what a node does while it runs (`wire.messages.node.NodePhase`); empty for no phase."""
    return _PHASES.get(phase, phase)


_CLIENT = {
    "invited": Look("state-invited", Tone.IDLE, "Invited", 8),
    "joining": Look("state-busy", Tone.BUSY, "Joining", 3),
    "waiting": Look("state-waiting", Tone.BUSY, "Waiting", 4),
    "online": Look("state-good", Tone.GOOD, "Online", 5),
    "late": Look("state-warning", Tone.WARNING, "Late", 2),
    "lost": Look("state-lost", Tone.BAD, "Lost", 0),
    "paused": Look("state-paused", Tone.PAUSED, "Paused", 6),
    "draining": Look("state-draining", Tone.BUSY, "Finishing", 4),
    "left": Look("state-idle", Tone.IDLE, "Left", 9),
    "quarantined": Look("state-quarantined", Tone.WARNING, "Quarantined", 1),
    "refused": Look("state-refused", Tone.BAD, "Refused", 1),
    "revoked": Look("state-refused", Tone.IDLE, "Revoked", 7),
}


def client_look(state: str) -> Look:
    """Return the look of a client's state (`wire.beats.ClientState`)."""
    return _CLIENT.get(state) or _unknown(state)


def shown_state(client: ClientStatus) -> str:
    """Return a client's state as it is shown: one that was invited and never came is not about to join."""
    never_seen = client.state == "joining" and client.age_s is None
    return "invited" if never_seen and client.invited is not None and not client.local else client.state


def is_inference_server(client: ClientStatus) -> bool:
    """Whether this is an inference server, which stands among the clients and plays nothing itself."""
    return inference_number(client.id) > 0


def is_here(client: ClientStatus) -> bool:
    """Whether a client is connected, whatever it does."""
    return shown_state(client) in _CLIENT_IS_HERE


def clients_here(clients: Iterable[ClientStatus]) -> tuple[int, int]:
    """Return how many clients are connected, and how many of them all should be.

    Those that were lost, left, were refused or were revoked are not counted: they may be of an earlier run.
    Nor are those that were invited and never came, and inference servers.
    """
    players = [client for client in clients if not is_inference_server(client)]
    expected = sum(shown_state(client) not in _CLIENT_IS_NOT_EXPECTED for client in players)
    return sum(map(is_here, players)), expected


def run_is_active(state: str) -> bool:
    """Whether a run in this state (`wire.control.RunState`) goes on."""
    return state in _RUN_GOES_ON


_RUN = {
    "none": Look("state-idle", Tone.IDLE, "No run", 9),
    "starting": Look("state-busy", Tone.BUSY, "Starting", 3),
    "waiting": Look("state-waiting", Tone.BUSY, "Waiting", 3),
    "running": Look("state-good", Tone.GOOD, "Running", 4),
    "paused": Look("state-paused", Tone.PAUSED, "Paused", 4),
    "saving": Look("save", Tone.BUSY, "Saving", 3),
    "finished": Look("state-finished", Tone.GOOD, "Finished", 6),
    "stopped": Look("state-idle", Tone.IDLE, "Stopped", 7),
    "frozen": Look("state-frozen", Tone.WARNING, "Frozen", 1),
    "failed": Look("state-bad", Tone.BAD, "Failed", 0),
}


def run_look(state: str) -> Look:
    """Return the look of a run's state (`wire.control.RunState`)."""
    return _RUN.get(state) or _unknown(state)


_LEVEL = {
    "info": Look("state-info", Tone.BUSY, "Information"),
    "success": Look("state-good", Tone.GOOD, "Done"),
    "warning": Look("state-warning", Tone.WARNING, "Warning"),
    "error": Look("state-bad", Tone.BAD, "Error"),
}


def level_look(level: str) -> Look:
    """Return the look of an event's or a message's level."""
    return _LEVEL.get(level) or _unknown(level)


_CHECKPOINT = {
    "current": Look("save", Tone.TEXT, "Current", 0),
    "previous": Look("save", Tone.IDLE, "Previous", 1),
    "best": Look("star", Tone.TEXT, "Best", 2),
    "manual": Look("pin", Tone.TEXT, "Quicksave", 3),
    "history": Look("save", Tone.IDLE, "History", 4),
}


def kind_look(kind: str) -> Look:
    """Return how a kind of checkpoint looks."""
    return _CHECKPOINT.get(kind) or _unknown(kind)


def reach_look(listed: InvitationList) -> Look:
    """Return from where this server is reachable."""
    places = ", ".join(place_words(host, port) for host, port in listed.addresses)
    if listed.lan:
        return Look("state-good", Tone.GOOD, f"Reachable from the private network, at {places}")
    return Look("state-warning", Tone.WARNING, f"Reachable only from the server's computer, at {places}")


_TITLES = {
    "redis": "Redis",
    "gateway": "Gateway",
    "exporter": "Exporter",
    "trainer": "Trainer",
    "telemetry": "Telemetry",
    "evaluator": "Evaluator",
}


def service_title(name: str, kind: str) -> str:
    """Return a service's name on screen: `Redis`, `Trainer`, `Client 1`."""
    if kind == "client":
        return f"Client {name.rpartition('-')[2]}"
    if kind in ("inference", "worker"):
        return f"{kind.capitalize()} {name.rpartition('-')[2]}"
    return _TITLES.get(kind, name)


def _unknown(state: str) -> Look:
    """A newer server may know states that this window does not."""
    return Look("help", Tone.IDLE, state.capitalize(), 9)
