"""How each state looks: an icon's shape, a word and a tone. Never a colour alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.wire.control import ClientStatus

_RUN_GOES_ON = frozenset({"starting", "waiting", "running", "paused", "saving", "frozen"})
_CLIENT_IS_HERE = frozenset({"joining", "waiting", "online", "late", "paused", "draining"})
_CLIENT_IS_NOT_EXPECTED = frozenset({"left", "refused", "revoked"})


@dataclass(frozen=True)
class Look:
    """A state on screen.

    Attributes:
        icon: Name of its icon.
        tone: Its colour.
        word: Its name, translated.
        rank: Order in lists: what needs attention comes first.
    """

    icon: str
    tone: Tone
    word: str
    rank: int = 5


@cache
def service_look(state: str) -> Look:
    """Return the look of a service's state (`wire.control.ServiceState`)."""
    looks = {
        "stopped": Look("state-idle", Tone.IDLE, tr("Stopped"), 6),
        "starting": Look("state-busy", Tone.BUSY, tr("Starting"), 3),
        "running": Look("state-good", Tone.GOOD, tr("Running"), 4),
        "stopping": Look("state-stopping", Tone.BUSY, tr("Stopping"), 3),
        "backoff": Look("state-retry", Tone.WARNING, tr("Restarting"), 1),
        "failed": Look("state-bad", Tone.BAD, tr("Failed"), 0),
    }
    return looks.get(state) or _unknown(state)


def phase_word(phase: str) -> str:
    """Return what a node does while it runs (`wire.messages.node.NodePhase`); empty for no phase."""
    words = {
        "loading": tr("Loading"),
        "waiting": tr("Waiting"),
        "collecting": tr("Collecting"),
        "updating": tr("Updating"),
        "evaluating": tr("Evaluating"),
        "compiling": tr("Compiling"),
        "saving": tr("Saving"),
        "paused": tr("Paused"),
        "frozen": tr("Frozen"),
        "stopping": tr("Stopping"),
    }
    return words.get(phase, phase)


@cache
def client_look(state: str) -> Look:
    """Return the look of a client's state (`wire.fleet.ClientState`)."""
    looks = {
        "invited": Look("state-invited", Tone.IDLE, tr("Invited"), 8),
        "joining": Look("state-busy", Tone.BUSY, tr("Joining"), 3),
        "waiting": Look("state-waiting", Tone.BUSY, tr("Waiting"), 4),
        "online": Look("state-good", Tone.GOOD, tr("Online"), 5),
        "late": Look("state-warning", Tone.WARNING, tr("Late"), 2),
        "lost": Look("state-lost", Tone.BAD, tr("Lost"), 0),
        "paused": Look("state-paused", Tone.PAUSED, tr("Paused"), 6),
        "draining": Look("state-draining", Tone.BUSY, tr("Finishing"), 4),
        "left": Look("state-idle", Tone.IDLE, tr("Left"), 9),
        "quarantined": Look("state-quarantined", Tone.WARNING, tr("Quarantined"), 1),
        "refused": Look("state-refused", Tone.BAD, tr("Refused"), 1),
        "revoked": Look("state-refused", Tone.IDLE, tr("Revoked"), 7),
    }
    return looks.get(state) or _unknown(state)


def shown_state(client: ClientStatus) -> str:
    """Return a client's state as it is shown: one that was invited and never came is not about to join."""
    never_seen = client.state == "joining" and client.age_s is None
    return "invited" if never_seen and client.invited is not None and not client.local else client.state


def clients_here(clients: Iterable[ClientStatus]) -> tuple[int, int]:
    """Return how many clients are connected, and how many of them all should be.

    Those that left, were refused or were revoked are not missed by anybody.
    """
    states = [shown_state(client) for client in clients]
    here = sum(state in _CLIENT_IS_HERE for state in states)
    return here, sum(state not in _CLIENT_IS_NOT_EXPECTED for state in states)


def run_is_active(state: str) -> bool:
    """Whether a run in this state (`wire.control.RunState`) goes on."""
    return state in _RUN_GOES_ON


@cache
def run_look(state: str) -> Look:
    """Return the look of a run's state (`wire.control.RunState`)."""
    looks = {
        "none": Look("state-idle", Tone.IDLE, tr("No run"), 9),
        "starting": Look("state-busy", Tone.BUSY, tr("Starting"), 3),
        "waiting": Look("state-waiting", Tone.BUSY, tr("Waiting"), 3),
        "running": Look("state-good", Tone.GOOD, tr("Running"), 4),
        "paused": Look("state-paused", Tone.PAUSED, tr("Paused"), 4),
        "saving": Look("save", Tone.BUSY, tr("Saving"), 3),
        "finished": Look("state-finished", Tone.GOOD, tr("Finished"), 6),
        "stopped": Look("state-idle", Tone.IDLE, tr("Stopped"), 7),
        "frozen": Look("state-frozen", Tone.WARNING, tr("Frozen"), 1),
        "failed": Look("state-bad", Tone.BAD, tr("Failed"), 0),
    }
    return looks.get(state) or _unknown(state)


@cache
def level_look(level: str) -> Look:
    """Return the look of an event's or a message's level."""
    looks = {
        "info": Look("state-info", Tone.BUSY, tr("Information")),
        "success": Look("state-good", Tone.GOOD, tr("Done")),
        "warning": Look("state-warning", Tone.WARNING, tr("Warning")),
        "error": Look("state-bad", Tone.BAD, tr("Error")),
    }
    return looks.get(level) or _unknown(level)


def service_title(name: str, kind: str) -> str:
    """Return a service's name on screen: `Redis`, `Trainer`, `Client 1`."""
    titles = {
        "redis": tr("Redis"),
        "trainer": tr("Trainer"),
        "telemetry": tr("Telemetry"),
        "evaluator": tr("Evaluator"),
    }
    if kind == "client":
        return tr("Client {number}").format(number=name.rpartition("-")[2])
    return titles.get(kind, name)


def _unknown(state: str) -> Look:
    """A newer server may know states that this window does not."""
    return Look("help", Tone.IDLE, state.capitalize(), 9)
