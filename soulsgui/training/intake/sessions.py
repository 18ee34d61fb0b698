"""The sessions of clients: who is let in and who is cut off, what each is granted, and what was refused."""

import logging
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.errors import printable
from soulsgui.wire.keys import PROTOCOL, EntryId, inference_number
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.heartbeat import MAX_ENVS, Heartbeat
from soulsgui.wire.messages.session import (
    NO_SESSION,
    Grant,
    GrantStatus,
    GreedyOrder,
    Ladder,
    RoundShare,
    SessionHello,
)
from soulsgui.wire.versions import update_needed

logger = logging.getLogger(__name__)

LEFT, OFF_THE_LIST, NEW_SESSION = "left", "was removed from the list", "began a new session"
REFUSED = "sent a chunk of which everything was refused"  # why a client won't deliver what it was asked for

_LARGEST_GAP = 1024


@dataclass
class ChunkNumbers:
    """Tells repeats and gaps."""

    below: int | None = 0  # smaller ones came or are given up; None counts from the first that comes
    given_up: int = 0
    _beyond: set[int] = field(default_factory=set)
    _highest: int = -1

    def take(self, number: int) -> bool:
        """Note a number; return False when it was there before (or was given up)."""
        if self.below is None:
            self.below = number
        if number < self.below or number in self._beyond:
            return False
        self._beyond.add(number)
        self._highest = max(self._highest, number)
        self._close_up()
        if len(self._beyond) > _LARGEST_GAP:  # so much came after the gap that it won't be filled
            nearest = min(self._beyond)
            self.given_up += nearest - self.below
            self.below = nearest
            self._close_up()
        return True

    def follow(self, numbers: list[int]) -> bool:
        """Whether numbers are the next ones, in order, and nothing was passed over before."""
        below = numbers[0] if self.below is None else self.below
        return not self._beyond and numbers == list(range(below, below + len(numbers)))

    def take_all(self, numbers: list[int]) -> None:
        """Note numbers that `follow`, at least one."""
        self.below = numbers[-1] + 1
        self._highest = max(self._highest, numbers[-1])

    @property
    def missing(self) -> int:
        """Numbers that were passed over so far."""
        if self.below is None or not self._beyond:
            return self.given_up
        return self.given_up + self._highest + 1 - self.below - len(self._beyond)

    def _close_up(self) -> None:
        assert self.below is not None
        while self.below in self._beyond:
            self._beyond.discard(self.below)
            self.below += 1


_EPSILON_STEP = 0.005
_TEMPERATURE_STEP = 0.02


@dataclass(frozen=True)
class ClientExploration:
    """How one client is to explore: the fields of its grant. With nothing set, as its policy says."""

    epsilon: float | None = None
    temperature: float | None = None
    ladder: Ladder | None = None

    def worth_telling(self, told: "ClientExploration | None") -> bool:
        """Whether it differs by enough from what the client was told before."""
        if told is None or self.ladder != told.ladder:
            return True
        return _differ(self.epsilon, told.epsilon, _EPSILON_STEP) or _differ(
            self.temperature, told.temperature, _TEMPERATURE_STEP * (told.temperature or 1.0)
        )


def _differ(new: float | None, old: float | None, by: float) -> bool:
    if new is None or old is None:
        return new is not old
    return abs(new - old) >= by


@dataclass(frozen=True)
class Exploration:
    """How all clients explore at one moment."""

    epsilon: float | None = None
    temperature: float | None = None
    ladder: float | None = None  # exponent of the ladder of epsilons over all environments
    own: Mapping[str, float] = field(default_factory=dict)  # epsilons of clients that have one of their own

    def of_client(self, first: int, count: int) -> ClientExploration:
        """Return how a client explores whose first environment is this one of `count` that play."""
        ladder = None
        if self.ladder is not None:
            ladder = Ladder(first=first, count=max(count, 1), exponent=self.ladder)
        return ClientExploration(self.epsilon, self.temperature, ladder)

    def figures(self) -> dict[str, float]:
        """Return what there is to see of it on the curves: `epsilon` or `temperature`."""
        named = {"epsilon": self.epsilon, "temperature": self.temperature}
        return {name: value for name, value in named.items() if value is not None}


_HALF_LIFE_S = 2.0


class Shares:
    """Measures what each client delivers, and divides by it."""

    def __init__(self, half_life_s: float = _HALF_LIFE_S) -> None:
        self._half_life_s = half_life_s
        self._steps: dict[str, int] = {}
        self._pace: dict[str, float] = {}
        self._total = 0.0
        self._measured_at = -inf

    def measure(self, steps: Mapping[str, int], now: float) -> None:
        """Take note of what has come."""
        seconds = now - self._measured_at
        if seconds <= 0:
            return
        news = 1.0 - 0.5 ** (seconds / self._half_life_s)
        paces = {}
        for client, count in steps.items():
            before = self._pace.get(client, 0.0)
            pace = max(count - self._steps.get(client, count), 0) / seconds
            paces[client] = before + news * (pace - before)
        self._steps, self._pace, self._measured_at = dict(steps), paces, now
        self._total = sum(paces.values())

    def part(self, client: str, members: int) -> float:
        """Return the part of one client, 0 to 1."""
        even = 1.0 / max(members, 1)
        delivers = self.delivered(client)
        return even if delivers is None else 0.5 * even + 0.5 * delivers

    def delivered(self, client: str) -> float | None:
        """Return which part of what comes is of this client, 0 to 1; None while nothing comes."""
        return self._pace.get(client, 0.0) / self._total if self._total > 0 else None


@dataclass(frozen=True)
class Refusals:
    """What was refused in this attempt."""

    total: dict[str, int] = field(default_factory=dict)
    by_client: dict[str, dict[str, int]] = field(default_factory=dict)
    missing: int = 0


ENTRIES_AHEAD = 4096  # entries a client may have on the way

_QUARANTINE_AFTER = 50
_BEFORE_ALL = EntryId(0, 0)


@dataclass
class Session:
    """One client's session as the trainer sees it."""

    client: str
    id: str
    num_envs: int
    began_at: float = 0.0
    status: GrantStatus = "accepted"
    reason: str = ""
    numbers: ChunkNumbers = field(default_factory=ChunkNumbers)
    rejected: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0  # refused segments since the last accepted one
    entries: int = 0  # chunks received since the hello, their bytes, their transitions (accepted or not)
    size: int = 0
    steps: int = 0
    since: EntryId = _BEFORE_ALL  # entries after this one are counted
    taken: EntryId = _BEFORE_ALL  # the newest that was taken over or refused
    stored: int = 0  # chunks it had stored when its beat was last looked at
    stored_steps: int = 0
    granted_entries: int = 0
    granted_bytes: int = 0
    granted_steps: int = 0
    most_entries: int = 0  # that it was ever granted, 0 before it was granted any
    most_size: int = 0
    told: ClientExploration | None = None
    plays: bool = True
    round: RoundShare | None = None
    greedy: GreedyOrder | None = None
    told_greedy: GreedyOrder | None = None
    share: float | None = None  # of all that comes, 0 to 1; None while nothing comes
    told_share: float | None = None
    serves: bool = False  # an inference server: those who step the environments have sessions of their own
    served: Mapping[str, int] = field(default_factory=dict)  # the first environment of each of them, in order

    @property
    def rungs(self) -> int:
        """How many places it takes on the ladder of epsilons."""
        return 0 if self.serves else self.num_envs

    def grant(
        self,
        bytes_ahead: int,
        steps_ahead: int | None = None,
        exploration: ClientExploration | None = None,
        held: bool = False,
    ) -> Grant:
        """Return the grant to write now."""
        if not held:
            self.granted_entries = self.entries + ENTRIES_AHEAD
            self.granted_bytes = self.size + bytes_ahead
            self.most_entries = max(self.most_entries, self.granted_entries)
            self.most_size = max(self.most_size, self.granted_bytes)
            if steps_ahead is not None:  # what was granted once can't be taken back
                self.granted_steps = max(self.granted_steps, self.steps + steps_ahead)
        self.told, self.told_greedy, self.told_share = exploration, self.greedy, self.share
        exploring = exploration or ClientExploration()
        return Grant(
            session=self.id,
            status=self.status,
            reason=self.reason,
            credit_entries=self.granted_entries,
            credit_bytes=self.granted_bytes,
            credit_steps=None if steps_ahead is None else self.granted_steps,
            **vars(exploring),
            rejected=dict(self.rejected),
            round=self.round,
            greedy=self.greedy,
            share=None if self.share is None else round(self.share, 3),
        )

    def received(self, size: int, number: int | None, entry: EntryId | None = None) -> bool:
        """Count an entry; return False when its number was there before."""
        if entry is None or entry > self.since:
            self.entries += 1
            self.size += size
        return number is None or self.numbers.take(number)

    def expected(self, numbers: list[int | None], first: EntryId) -> list[int] | None:
        """Return the numbers of entries that are the next ones of the session; None when they are not."""
        known = [number for number in numbers if number is not None]
        follow = len(known) == len(numbers) and first > self.since and self.numbers.follow(known)
        return known if follow else None

    def received_run(self, size: int, steps: int, numbers: list[int]) -> None:
        """Count good entries that are `expected`, as `received`, `received_steps` and `refuse` would."""
        self.numbers.take_all(numbers)
        self.entries += len(numbers)
        self.size += size
        self.steps += steps
        self.in_a_row = 0

    def passed_over(self, size: int, numbers: list[int | None]) -> None:
        """Count entries that are not looked at, because the session may not send."""
        self.entries += len(numbers)
        self.size += size
        for number in numbers:
            if number is not None:
                self.numbers.take(number)

    def received_steps(self, steps: int, entry: EntryId) -> None:
        """Count the transitions of an entry, as `received`."""
        if entry > self.since:
            self.steps += steps

    def needs_credit(self, bytes_ahead: int, steps_ahead: int | None = None) -> bool:
        """Whether more than half of the credit is used up."""
        return (
            self.granted_entries - self.entries < ENTRIES_AHEAD // 2
            or self.granted_bytes - self.size < bytes_ahead // 2
            or (steps_ahead is not None and self.granted_steps - self.steps < (steps_ahead + 1) // 2)
        )

    def overdrew(self, newest: int) -> bool:
        """Whether more has come of it than was ever granted; who has anything left may send one entry."""
        granted = self.most_entries > 0
        return granted and (self.entries > self.most_entries or self.size - newest >= self.most_size)

    def look_for_losses(self, beat: Heartbeat) -> None:
        """Count as received what the client has stored and the server has lost.

        Otherwise it would use up credit for ever; so would the transitions of chunks that were refused
        whole, which nobody but their client can count. Call it when the stream was read to its end after
        this beat: what the beat before it told of is then here, or lost.
        """
        self.steps = max(self.steps, min(self.stored_steps, self.granted_steps))
        if self.entries < self.stored:
            logger.info("%d chunks of %s were lost with the server", self.stored - self.entries, self.client)
            self.entries = max(self.entries, min(beat.sent_chunks, self.granted_entries))
            self.size = max(self.size, min(beat.sent_bytes, self.granted_bytes))
            self.steps = max(self.steps, min(beat.sent_steps, self.granted_steps))
        self.stored, self.stored_steps = beat.sent_chunks, beat.sent_steps

    def cut_off(self, reason: str) -> None:
        """Take nothing of it any more until it is released."""
        self.status, self.reason, self.round = "quarantined", reason, None

    def release(self) -> None:
        """Let it send again, with a clean row; what was granted to it before counts as used."""
        self.status, self.reason, self.in_a_row = "accepted", "", 0
        self.steps = max(self.steps, self.granted_steps)

    def refuse(self, reasons: dict[str, int], accepted: int) -> bool:
        """Count refused segments; return whether these, without a good one between, cut it off."""
        self.rejected.update(reasons)
        harmful = sum(count for reason, count in reasons.items() if reason != Reason.LATE)
        self.in_a_row = 0 if accepted else self.in_a_row + harmful
        if self.in_a_row < _QUARANTINE_AFTER or self.status != "accepted":
            return False
        worst = max(self.rejected, key=lambda reason: self.rejected[reason])
        self.cut_off(f"{self.in_a_row} refused segments in a row, most of them {worst}")
        return True


@dataclass
class _PastSessions:
    """What is remembered of a client's sessions that are over, or were never begun."""

    rejected: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0  # refused without a good one between
    cut_off: str | None = None  # why it stays cut off


# Over several rounds: within one, clients deliver one after the other.
_SHOWN_HALF_LIFE_S = 20.0
_WORTH_TELLING = 0.05
_SHOWN = 80


class Sessions:
    """All sessions of an attempt."""

    def __init__(
        self,
        run_id: str,
        contract: str,
        bytes_ahead: int,
        least_versions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._run_id = run_id
        self._least_versions = least_versions
        self._contract = contract
        self._bytes_ahead = bytes_ahead
        self.by_client: dict[str, Session] = {}
        self.playing = 0
        # Transitions all clients together may have on the way; None: as many as they like.
        self.steps_ahead: int | None = None
        self.exploration: Exploration | None = None
        self.held = False  # nobody is granted more: the server's memory fills up
        self.resting = False  # the run is paused: the same, and everybody is told why
        self.most_envs = MAX_NUM_ENVS  # of a client
        self._shares = Shares()
        self._shown_shares = Shares(_SHOWN_HALF_LIFE_S)
        self._past: defaultdict[str, _PastSessions] = defaultdict(_PastSessions)
        self._rejected_of_forgotten: Counter[str] = Counter()
        self._missing_before = 0

    @property
    def bytes_ahead(self) -> int:
        """Bytes each client may have on the way."""
        return self._bytes_ahead // max(len(self.by_client), 1)

    def set_playing(self, clients: Container[str]) -> None:
        """Say who plays."""
        for client, session in self.by_client.items():
            session.plays = client in clients
        self.playing = sum(session.plays for session in self.by_client.values())

    def measure(self, now: float) -> None:
        """Take note of what each client has delivered by now (monotonic time, seconds)."""
        steps = {client: session.steps for client, session in self.by_client.items()}
        self._shares.measure(steps, now)
        self._shown_shares.measure(steps, now)
        for client, session in self.by_client.items():
            session.share = self._shown_shares.delivered(client)

    def grant(self, session: Session) -> Grant:
        """Return the grant to write now for a session."""
        return self._grant(session, self._explorations().get(session.client))

    def grant_of(self, client: str) -> Grant | None:
        """Return the grant to write now for a client; None for one that has no session and is not cut off."""
        if (session := self.by_client.get(client)) is not None:
            return self.grant(session)
        if (past := self._past.get(client)) is None or past.cut_off is None:
            return None
        return Grant(session=NO_SESSION, status="quarantined", reason=past.cut_off)

    def grants(self) -> dict[str, Grant]:
        """Return the grants to write now, by client."""
        explorations = self._explorations()
        return {
            client: self._grant(session, explorations.get(client))
            for client, session in self.by_client.items()
        }

    def grants_due(self) -> dict[str, Grant]:
        """Return the grants of those who need more, or for whom something else is otherwise than told."""
        explorations = self._explorations()
        return {
            client: self._grant(session, explorations.get(client))
            for client, session in self.by_client.items()
            if self.needs_credit(session) or _is_news(session, explorations.get(client))
        }

    def _grant(self, session: Session, exploration: ClientExploration | None) -> Grant:
        steps, held = self._steps_ahead(session), self.held or self.resting
        grant = session.grant(self.bytes_ahead, steps, exploration, held)
        return grant.model_copy(update={"resting": True}) if self.resting else grant

    def _explorations(self) -> dict[str, ClientExploration]:
        """Return how each client is to explore; on a ladder, those who play stand in the order they came."""
        exploration = self.exploration
        if exploration is None:
            return {}
        if exploration.ladder is None:
            same = dict.fromkeys(self.by_client, exploration.of_client(0, 1))
            return same | {client: ClientExploration(rate) for client, rate in exploration.own.items()}
        count = sum(session.rungs for session in self.by_client.values() if session.plays)
        first, found = 0, {}
        for client, session in self.by_client.items():
            found[client] = exploration.of_client(first, count)
            if session.plays:
                first += session.rungs
        return found

    def needs_credit(self, session: Session) -> bool:
        """Whether a session is to be granted more: it has used up more than half of its credit."""
        if self.held or session.status != "accepted":
            return False
        return session.needs_credit(self.bytes_ahead, self._steps_ahead(session))

    @property
    def steps_outstanding(self) -> int:
        """Transitions that may be on their way from those who play."""
        playing = (session for session in self.by_client.values() if session.plays)
        return sum(max(session.granted_steps - session.steps, 0) for session in playing)

    def _steps_ahead(self, session: Session) -> int | None:
        if not self.steps_ahead:
            return self.steps_ahead
        # Less than a step of each of its environments would hold a client up for ever.
        part = self._shares.part(session.client, self.playing)
        return max(int(self.steps_ahead * part), session.num_envs)

    def is_of_another_run(self, hello: SessionHello | None) -> bool:
        """Whether a client greets the server's last run: it has not read yet that this one goes on."""
        return hello is not None and hello.protocol == PROTOCOL and hello.run_id != self._run_id

    def hello(self, client: str, entry: EntryId, hello: SessionHello | None, now: float) -> Session:
        """Begin a session: the older one of this client, if any, ends with it. Who was cut off stays so."""
        self.end(client)
        past, problem = self._past[client], self._why_refused(client, hello)
        session = Session(client, str(entry), hello.num_envs if hello else 1, now, since=entry)
        session.serves = hello is not None and hello.serves
        if hello is not None and inference_number(client):  # nobody else speaks for others
            session.served = dict(sorted(hello.served.items(), key=lambda one: one[1]))
        session.in_a_row, past.in_a_row = past.in_a_row, 0
        session.plays = not problem and past.cut_off is None
        if problem:
            session.status, session.reason = "refused", problem
            logger.warning("%s refused: %s", client, problem)
        elif past.cut_off is not None:
            session.cut_off(past.cut_off)
            past.cut_off = None
            logger.info("%s is back, and still cut off: %s", client, session.reason)
        else:
            self.playing += 1
            logger.info("%s joined with %d environments (session %s)", client, session.num_envs, entry)
        self.by_client[client] = session
        return session

    def _why_refused(self, client: str, hello: SessionHello | None) -> str:
        """Return why a client can't be let in, in words; empty when it can."""
        if hello is None:
            return "its hello can't be read"
        if hello.client != client:
            return f"it calls itself “{printable(hello.client, _SHOWN)}”"
        if old := update_needed(hello.versions, self._least_versions):
            return old
        if hello.protocol != PROTOCOL:
            return f"it speaks protocol {hello.protocol}, this server {PROTOCOL}"
        if hello.contract != self._contract:
            return "its environment, wrappers or spaces differ from this run's"
        if hello.num_envs > (most := self._most_envs(client)):
            longer = " or a smaller ppo.n_steps" if most < MAX_NUM_ENVS else ""
            return (
                f"it steps {hello.num_envs:,} environments side by side: here a client may have "
                f"{most:,} at most (start it with a smaller --num-envs{longer})"
            )
        return ""

    def _most_envs(self, client: str) -> int:
        return MAX_ENVS if inference_number(client) else self.most_envs

    def readmit(
        self, client: str, grant: Grant, beat: Heartbeat, last: EntryId, now: float
    ) -> Session | None:
        """Go on with a session that was admitted before, by an earlier trainer; None when it is over."""
        if grant.status == "quarantined":
            self._past[client].cut_off = grant.reason
        same = beat.session == grant.session and beat.run_id == self._run_id and not beat.leaving
        if grant.status == "refused" or not same or not 1 <= beat.num_envs <= self._most_envs(client):
            return None
        self._past[client].cut_off = None
        session = Session(client, grant.session, beat.num_envs, now, grant.status, grant.reason, since=last)
        session.serves = beat.inference is not None
        session.numbers = ChunkNumbers(below=None)  # what was acknowledged before the restart is not known
        # What it stored since its hello counts as received: credits are totals, and never go back.
        session.entries = min(beat.sent_chunks, grant.credit_entries)
        session.size = min(beat.sent_bytes, grant.credit_bytes)
        session.granted_entries = session.most_entries = grant.credit_entries
        session.granted_bytes = session.most_size = grant.credit_bytes
        session.granted_steps = grant.credit_steps or 0
        session.steps = min(beat.sent_steps, session.granted_steps)
        self.by_client[client] = session
        return session

    def end(self, client: str) -> None:
        """End a client's session, if it has one; what was refused of it is remembered."""
        session = self.by_client.pop(client, None)
        if session is None:
            return
        past = self._past[client]
        past.rejected.update(session.rejected)
        if session.status == "quarantined":
            past.cut_off = session.reason
        past.in_a_row = session.in_a_row or past.in_a_row  # a new hello makes nobody better
        self._missing_before += session.numbers.missing

    def cut_off(self, client: str, reason: str) -> None:
        """Take nothing of a client any more until it is released, whether it has a session or not.

        A session that was refused stays so, whatever becomes of this: its client may come in no other way
        than with a hello that is accepted, and is cut off until then.
        """
        session = self.by_client.get(client)
        if session is not None and session.status != "refused":
            session.cut_off(reason)
        else:
            self._past[client].cut_off = reason

    def is_cut_off(self, client: str) -> bool:
        """Whether nothing of a client is taken until it is released."""
        session, past = self.by_client.get(client), self._past.get(client)
        held = session is not None and session.status == "quarantined"
        return held or (past is not None and past.cut_off is not None)

    def release(self, client: str) -> bool:
        """Let a client that was cut off send again; return whether it was."""
        session = self.by_client.get(client)
        if session is not None and session.status == "quarantined":
            session.release()
            return True
        past = self._past[client]
        was_cut_off = past.cut_off is not None
        past.in_a_row, past.cut_off = 0, None
        return was_cut_off

    def forget_all_but(self, clients: Iterable[str]) -> None:
        """End the sessions of clients that are not listed any more; of them only the sum is kept."""
        listed = set(clients)
        for client in (self.by_client.keys() | self._past.keys()) - listed:
            self.forget(client)

    def forget(self, client: str) -> None:
        """End the session of a client, and know of it only what was refused in all."""
        self.end(client)
        if client in self._past:
            self._rejected_of_forgotten.update(self._past.pop(client).rejected)

    def refusals(self) -> Refusals:
        """Return what was refused and what is missing, as of now."""
        by_client: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for client, past in self._past.items():
            by_client[client].update(past.rejected)
        for client, session in self.by_client.items():
            by_client[client].update(session.rejected)
        total = Counter(self._rejected_of_forgotten)
        for counts in by_client.values():
            total.update(counts)
        told = {client: dict(counts) for client, counts in by_client.items() if counts}
        missing = self._missing_before + sum(session.numbers.missing for session in self.by_client.values())
        return Refusals(dict(total), told, missing)

    def count_unadmitted(self, client: str, reason: str, count: int = 1) -> None:
        """Count entries of a client that has no session, or may not send."""
        if count:
            self._past[client].rejected[reason] += count


def _is_news(session: Session, exploration: ClientExploration | None) -> bool:
    """Whether a client is to be told what differs from its last grant, besides its credit."""
    explores_otherwise = exploration is not None and exploration.worth_telling(session.told)
    return (
        (session.status == "accepted" and explores_otherwise)
        or session.greedy != session.told_greedy
        or abs((session.share or 0.0) - (session.told_share or 0.0)) >= _WORTH_TELLING
    )
