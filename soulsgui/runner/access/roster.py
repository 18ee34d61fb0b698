"""The clients of this server: their names, the wishes written for them, and their states."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import redis

from soulsgui.errors import printable
from soulsgui.runner.access.invitations import Invited
from soulsgui.runner.refusal import Refused
from soulsgui.runner.server.reader import SeenClient, Turn
from soulsgui.system import write_private
from soulsgui.wire.beats import BeatClock, ClientState, client_state
from soulsgui.wire.control import ClientStatus, ErrorCode, told_by_beat
from soulsgui.wire.control.states import GONE
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance, Message
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import Wish

Write = Callable[[redis.Redis], object]


_LONGEST = 64


class _NamesFile(Message):
    names: dict[str, str]


class ClientNames:
    """The names, in memory and in their file. Every change is on the disk before it counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = _NamesFile.read(path.read_bytes()) if path.exists() else None
        self._names = dict(found.names) if found is not None else {}

    def of(self, client: str) -> str:
        """Return the display name of a client: its id unless it was renamed."""
        return self._names.get(client, client)

    def check_free(self, client: str, name: str, ids: Collection[str]) -> None:
        """Make sure that a client may be called so: no two look alike on screen."""
        if name != client and name in ids:
            raise Refused(ErrorCode.NOT_NOW, f"{name} is the id of another client.", "Choose another name.")
        if any(called == name for known, called in self._names.items() if known != client):
            raise Refused(
                ErrorCode.NOT_NOW, f"Another client is called “{name}” already.", "Choose another name."
            )

    def set(self, client: str, name: str, ids: Collection[str]) -> None:
        """Call a client something else."""
        name = " ".join(printable(name, _LONGEST).split())
        names = {known: called for known, called in self._names.items() if known != client}
        if name:
            self.check_free(client, name, ids)
        if name and name != client:
            names[client] = name
        self._keep(names)

    def forget(self, client: str) -> None:
        """Know no name of a client any more."""
        self._keep({known: called for known, called in self._names.items() if known != client})

    def _keep(self, names: dict[str, str]) -> None:
        if names != self._names:
            write_private(self._path, _NamesFile(names=names).model_dump_json(indent=1).encode())
            self._names = names


class RosterEntry(Message):
    """One client's entry in the `clients` hash."""

    local: bool = False  # Whether this server starts it itself


@lru_cache(maxsize=64)
def _entry(text: str | None) -> RosterEntry | None:
    """Return what stands in the hash; there are few texts, and as many clients as there are."""
    return RosterEntry.read(text)


@dataclass(frozen=True)
class _Known:
    listed: RosterEntry | None
    seen: SeenClient


_FOLDED_AFTER_S = 30.0
"""Time for trainer and telemetry to take in what simulated clients sent before they left."""
_PLAYS = (ClientState.ONLINE, ClientState.WAITING)
_SENDS_SILENTLY = "It sends samples, but no heartbeats."
_UNSEEN = SeenClient(None, None, None, None)


class ClientRoster:
    """The clients by the server's clock. It reads turns and returns what is to be written."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._clock = BeatClock()
        self._known: dict[str, _Known] = {}
        self._ages: dict[str, float] = {}
        self._local: set[str] = set()
        self._invited: Mapping[str, Invited] = {}
        self._anew: dict[str, Instance | None] = {}
        self._read_at = 0.0
        self._away = False
        self._cut_off: dict[str, str] | None = None
        self._heard: set[str] = set()
        self._lost: set[str] = set()

    def __contains__(self, client: str) -> bool:
        return client in self._known or client in self._invited

    def names(self) -> list[str]:
        """Return everybody who has a beat or stands on the list, in order."""
        return sorted(self._known)

    def ids(self) -> set[str]:
        """Return the id of everybody: who has a beat, stands on the list, or was invited."""
        return self._known.keys() | self._invited.keys()

    def set_local(self, names: Iterable[str]) -> None:
        """Tell which clients this server runs itself at present."""
        self._local = set(names)

    def set_invited(self, invited: Mapping[str, Invited]) -> None:
        """Tell who was invited, also those who were revoked; whoever is invited again begins anew."""
        before, self._invited = self._invited, dict(invited)
        for name, one in self._invited.items():
            if one.may_come and name in before and before[name].invited != one.invited:
                beat = self.beat(name)
                self._anew[name] = beat.instance if beat is not None else None
        may_come = {name for name in self._invited if not self.is_revoked(name)}
        self._anew = {name: past for name, past in self._anew.items() if name in may_come}

    def is_revoked(self, client: str) -> bool:
        """Whether a client's invitation was taken back."""
        return client in self._invited and not self._invited[client].may_come

    def is_local(self, client: str) -> bool:
        """Whether this server starts a client itself."""
        known = self._known.get(client)
        listed = known.listed if known is not None else None
        return client in self._local or (listed is not None and listed.local)

    def is_quarantined(self, client: str) -> bool:
        """Whether the trainer has cut a client off, so that it takes nothing of it until it is released."""
        known = self._known.get(client)
        grant = known.seen.grant if known is not None else None
        return grant is not None and grant.status == "quarantined"

    def news_of_cut_off(self) -> list[tuple[str, str]]:
        """Return who was cut off since the last call, each with the reason; nobody at the first call."""
        grants = {name: known.seen.grant for name, known in self._known.items()}
        now = {
            name: grant.reason for name, grant in grants.items() if grant and grant.status == "quarantined"
        }
        before, self._cut_off = self._cut_off, now
        return [] if before is None else [(name, why) for name, why in now.items() if name not in before]

    def news_of_lost(self, now: float) -> tuple[list[str], list[str]]:
        """Return who was lost since the last call, and who came back; of our own their supervisor tells."""
        states = {name: self.state(name, now) for name in self._known if not self.is_local(name)}
        heard = {name for name, state in states.items() if state not in GONE}
        silent = {name for name, state in states.items() if state == ClientState.LOST}
        lost, back = silent & self._heard, self._lost & heard
        self._heard, self._lost = heard, (self._lost | lost) & silent
        return sorted(lost, key=_natural), sorted(back, key=_natural)

    def forgetting_stale_locals(self) -> Write:
        """Return the removal of the clients this server ran itself once, and runs no longer."""
        local = frozenset(self._local)

        def write(connection: redis.Redis) -> None:
            # Asked of the server: a runner that has just begun has not read it yet.
            listed = cast("dict[bytes, bytes]", connection.hgetall(self._keys.clients))
            entries = {name.decode(errors="replace"): RosterEntry.read(text) for name, text in listed.items()}
            stale = [name for name, entry in entries.items() if entry is not None and entry.local]
            self.forgetting(*(name for name in stale if name not in local))(connection)

        return write

    def take(self, turn: Turn, now: float) -> list[Write]:
        """Take over what was read, and return the writes that follow from it."""
        self._away = self._away or not turn.reachable
        if turn.clients is None or turn.roster is None:
            return []
        if self._away:
            # That nobody could be heard of meanwhile is no client's silence.
            self._clock.leave_out(now - self._read_at)
        self._away, self._read_at = False, now
        self._observe(turn.clients, turn.roster, now)
        expected = {*self._known, *self._invited}
        unlisted = sorted(name for name in expected if name not in turn.roster and not self.is_revoked(name))
        revoked = [name for name in turn.roster if self.is_revoked(name)]
        return [
            *([self.listing(unlisted)] if unlisted else []),
            *([self.forgetting(*revoked, beats=False)] if revoked else []),
            *self._granted_wishes(),
            *self._past(now),
        ]

    def _observe(self, clients: Mapping[str, SeenClient], listed: Mapping[str, str], now: float) -> None:
        """Take note of every client, and forget those that are gone."""
        for gone in set(self._known) - set(clients):
            self._clock.forget(gone)
            self._ages.pop(gone, None)
        self._known = {name: _Known(_entry(listed.get(name)), seen) for name, seen in clients.items()}
        for name, known in self._known.items():
            beat = known.seen.beat
            if beat is None:
                continue
            if name in self._anew and self._anew[name] != beat.instance:
                del self._anew[name]
                self._clock.forget(name)
                self._ages.pop(name, None)
            if known.seen.age_s is not None:
                self._ages[name] = known.seen.age_s
            self._clock.observe(beat, self._ages.get(name, 0.0), now)

    def _past(self, now: float) -> list[Write]:
        """Take away simulated clients whose process is long gone."""
        folded = [
            name
            for name, known in self._known.items()
            if _has_gone_by(known) and (self._clock.age_s(name, now) or 0.0) > _FOLDED_AFTER_S
        ]
        return [self.forgetting(*folded)] if folded else []

    def _granted_wishes(self) -> list[Write]:
        """Take back the wishes to stop that were carried out, so that the client may come again."""
        done = []
        for name, known in self._known.items():
            beat, wish = known.seen.beat, known.seen.wish
            if beat is None or wish is None or wish.state not in ("finish", "stop") or not beat.leaving:
                continue
            if beat.answered is not None and beat.answered.command_id == wish.command_id:
                done.append(self.without_wish(name))
        return done

    def listing(self, names: list[str]) -> Write:
        """Return the writing of clients into the roster, where the trainer looks for them."""
        fields: dict[Any, Any] = {name: RosterEntry(local=name in self._local).to_json() for name in names}
        return lambda connection: connection.hset(self._keys.clients, mapping=fields) if fields else 0

    def wishing(self, client: str, wish: Wish) -> Write:
        """Return the writing of what a client is wanted to do, with its wake-up."""

        def write(connection: redis.Redis) -> None:
            pipeline = connection.pipeline(transaction=True)
            pipeline.set(self._keys.wish(client), wish.to_json())
            pipeline.publish(self._keys.wake_up(client), wish.command_id)
            pipeline.execute()

        return write

    def looking(self, client: str, number: int) -> Write:
        """Return the asking for a picture of a client's game, beside what it is wanted to do."""

        def write(connection: redis.Redis) -> None:
            (before,) = cast("list[bytes | None]", connection.mget([self._keys.wish(client)]))
            wish = Wish.read(before) or Wish(command_id="")
            self.wishing(client, wish.model_copy(update={"look": number}))(connection)

        return write

    def without_wish(self, *clients: str) -> Write:
        """Return the taking back of wishes: those clients run as they like."""
        return lambda connection: connection.delete(*map(self._keys.wish, clients)) if clients else 0

    def forgetting(self, *clients: str, beats: bool = True) -> Write:
        """Return the removal of clients and of what they left on the server, maybe but for their beats."""
        keys = self._keys
        names = [
            key for client in clients for key in keys.of_client(client) if beats or key != keys.beat(client)
        ]

        def write(connection: redis.Redis) -> None:
            if clients:
                pipeline = connection.pipeline(transaction=True)
                pipeline.hdel(keys.clients, *clients)
                pipeline.delete(*names)
                pipeline.execute()

        return write

    def beat(self, client: str) -> Heartbeat | None:
        """Return a client's newest beat."""
        known = self._known.get(client)
        return None if known is None else known.seen.beat

    def state(self, client: str, now: float) -> ClientState:
        """Return the state of a known client."""
        if self.is_revoked(client):
            return ClientState.REVOKED
        seen = self._seen(client)
        age_s = self._age_s(client, now)
        if seen.beat is None or age_s is None:
            if seen.grant is not None and seen.grant.status == "quarantined":
                return ClientState.QUARANTINED
            # Who was invited and never came is no cause for alarm.
            expected = client in self._local or client in self._invited
            return ClientState.JOINING if expected else ClientState.LOST
        return client_state(seen.beat, age_s, seen.grant, seen.wish)

    def _seen(self, client: str) -> SeenClient:
        """Return what the server holds of a client, without its past if it begins anew."""
        known = self._known.get(client)
        if known is None:
            return _UNSEEN
        if client not in self._anew:
            return known.seen
        return _UNSEEN if known.seen.beat is not None else replace(_UNSEEN, wish=known.seen.wish)

    def _age_s(self, client: str, now: float) -> float | None:
        """Return seconds since a client's last beat; they stand still while the server is away."""
        return self._clock.age_s(client, self._read_at if self._away else now)

    def statuses(self, now: float, trainer: NodeState | None, run_id: str = "") -> list[ClientStatus]:
        """Return every client's status, by name."""
        there = (name for name, known in self._known.items() if not _has_gone_by(known))
        names = sorted({*there, *self._invited}, key=_natural)
        return [self._status(name, now, trainer, run_id) for name in names]

    def _status(self, name: str, now: float, trainer: NodeState | None, run_id: str) -> ClientStatus:
        seen = self._seen(name)
        beat, grant, wish = seen.beat, seen.grant, seen.wish
        state = self.state(name, now)
        local = self.is_local(name)
        rejected = dict(grant.rejected) if grant is not None else {}
        if trainer is not None and name not in self._anew:
            rejected |= trainer.rejected_by_client.get(name, {})
        # Made at once, not copied and changed: there may be a thousand, twice a second.
        fields: dict[str, Any] = {
            "id": name,
            "name": name,
            "local": local,
            "state": state,
            "rejected": rejected,
            "wish": wish.state if wish is not None else "run",
            "invited": self._invited[name].invited if name in self._invited else None,
            "invited_again": name in self._invited and self._invited[name].again,
        }
        refusal = grant.reason if grant is not None and grant.status != "accepted" else ""
        if beat is None:
            sends = bool(rejected) or grant is not None
            return ClientStatus(**fields, error=refusal or (_SENDS_SILENTLY if sends else ""))
        fields["age_s"] = self._age_s(name, now)
        if state in GONE and beat.run_id != run_id and run_id:
            return ClientStatus(**fields | {"host": beat.instance.host, "rejected": {}})
        fields |= told_by_beat(beat)
        fields["stalled"] = state == ClientState.ONLINE and self._clock.stalled(name, now)
        fields["lag"] = _lag(beat, trainer)
        fields["error"] = refusal or beat.error
        # A rate is one of this moment.
        if state != ClientState.ONLINE:
            fields["env_steps_per_s"] = 0.0
        if state not in _PLAYS:
            fields["waiting"] = 0.0
        return ClientStatus(**fields)


def _has_gone_by(known: _Known) -> bool:
    """Whether a client was a simulated one that left in order; such clients are forgotten."""
    beat = known.seen.beat
    return beat is not None and beat.simulated and beat.leaving


def _lag(beat: Heartbeat, trainer: NodeState | None) -> int | None:
    """Return how many updates a client's weights are behind, None while that can't be told."""
    if trainer is None or beat.run_id != trainer.run_id or min(beat.model_id, trainer.model_id) < 0:
        return None
    return max(trainer.updates - beat.update, 0)


def _natural(name: str) -> tuple[str, int]:
    """Sort key that puts client-2 before client-10."""
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head, int(digits) if digits else -1
