"""The sessions of all clients: who is let in and who is cut off, and how credit is shared."""

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from soulsgui.training.admission import problem_of
from soulsgui.training.exploring import Exploration, Orders
from soulsgui.training.numbers import ChunkNumbers
from soulsgui.training.refusals import Refusals
from soulsgui.training.session import Session
from soulsgui.training.shares import Shares
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.heartbeat import MAX_ENVS, Heartbeat
from soulsgui.wire.messages.session import Grant, Hello

logger = logging.getLogger(__name__)

# Over several rounds: within one, clients deliver one after the other.
_SHOWN_HALF_LIFE_S = 20.0
_WORTH_TELLING = 0.05


class Sessions:
    """All sessions of an attempt.

    Args:
        run_id: The run.
        contract: Its contract hash.
        bytes_ahead: Bytes all clients together may have on the way.
        least_versions: Oldest version of each package that a client may run.

    Attributes:
        by_client: The session of each client that has one.
        playing: How many of them take part, as far as is known.
        steps_ahead: Transitions all clients together may have on the way. None: as many as they like.
            0: nothing is granted beside what was granted before.
        exploration: How those who play explore; None: as their policy says.
        held: Whether nobody is granted more than was before: the server's memory fills up.
        resting: Whether the run is paused: nobody is granted more, and everybody is told why.
        most_envs: Environments that a client may step side by side.
    """

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
        self.steps_ahead: int | None = None
        self.exploration: Exploration | None = None
        self._cut_off: dict[str, str] = {}  # clients without a session that stay cut off, and why
        self.held = False
        self.resting = False
        self.most_envs = MAX_ENVS
        self._in_a_row: dict[str, int] = {}  # refused without a good one between, in sessions that are over
        self._shares = Shares()
        self._shown_shares = Shares(_SHOWN_HALF_LIFE_S)
        self._rejected_before: dict[str, Counter[str]] = {}
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
        return self._grant(session, self._orders())

    def _grant(self, session: Session, orders: Mapping[str, Orders]) -> Grant:
        steps = self._steps_ahead(session)
        held = self.held or self.resting
        grant = session.grant(self.bytes_ahead, steps, orders.get(session.client), held)
        return grant.model_copy(update={"resting": True}) if self.resting else grant

    def grants(self) -> dict[str, Grant]:
        """Return the grants to write now, by client."""
        orders = self._orders()
        return {client: self._grant(session, orders) for client, session in self.by_client.items()}

    def grants_due(self) -> dict[str, Grant]:
        """Return the grants of those who need more, or for whom something else is otherwise than told."""
        orders = self._orders()
        return {
            client: self._grant(session, orders)
            for client, session in self.by_client.items()
            if self.needs_credit(session)
            or self._explores_otherwise(session, orders.get(client))
            or session.greedy != session.told_greedy
            or abs((session.share or 0.0) - (session.told_share or 0.0)) >= _WORTH_TELLING
        }

    @staticmethod
    def _explores_otherwise(session: Session, orders: Orders | None) -> bool:
        return session.status == "accepted" and orders is not None and orders.worth_telling(session.told)

    def _orders(self) -> dict[str, Orders]:
        """Return how each client is to explore; on a ladder, those who play stand in the order they came."""
        exploration = self.exploration
        if exploration is None:
            return {}
        if exploration.ladder is None:
            alike = exploration.orders(0, 1)
            return dict.fromkeys(self.by_client, alike)
        count = sum(session.num_envs for session in self.by_client.values() if session.plays)
        first, found = 0, {}
        for client, session in self.by_client.items():
            found[client] = exploration.orders(first, count)
            if session.plays:
                first += session.num_envs
        return found

    def needs_credit(self, session: Session) -> bool:
        """Whether a session is to be granted more: it has used up more than half of its credit."""
        if self.held or session.status != "accepted":
            return False
        return session.needs_credit(self.bytes_ahead, self._steps_ahead(session))

    @property
    def steps_outstanding(self) -> int:
        """Transitions that may be on their way from those who play."""
        return sum(
            max(session.granted_steps - session.steps, 0)
            for session in self.by_client.values()
            if session.plays
        )

    def _steps_ahead(self, session: Session) -> int | None:
        if not self.steps_ahead:
            return self.steps_ahead
        # Less than a step of each of its environments would hold a client up for ever.
        part = self._shares.part(session.client, self.playing)
        return max(int(self.steps_ahead * part), session.num_envs)

    def is_of_another_run(self, hello: Hello | None) -> bool:
        """Whether a client greets the server's last run: it has not read yet that this one goes on."""
        return hello is not None and hello.protocol == PROTOCOL and hello.run_id != self._run_id

    def hello(self, client: str, entry: EntryId, hello: Hello | None, now: float) -> Session:
        """Begin a session: the older one of this client, if any, ends with it. Who was cut off stays so.

        Args:
            client: The client.
            entry: Entry id of the hello: names the session.
            hello: The hello, None when it can't be read.
            now: Monotonic time, seconds.
        """
        self.end(client)
        problem = problem_of(hello, client, self._contract, self._least_versions, self.most_envs)
        session = Session(client, str(entry), hello.num_envs if hello else 1, now, since=entry)
        session.in_a_row = self._in_a_row.pop(client, 0)
        if problem:
            session.status, session.reason, session.plays = "refused", problem, False
            logger.warning("%s refused: %s", client, problem)
        elif client in self._cut_off:
            session.cut_off(self._cut_off.pop(client))
            session.plays = False
            logger.info("%s is back, and still cut off: %s", client, session.reason)
        else:
            self.playing += 1
            logger.info("%s joined with %d environments (session %s)", client, session.num_envs, entry)
        self.by_client[client] = session
        return session

    def readmit(
        self, client: str, grant: Grant, beat: Heartbeat, last: EntryId, now: float
    ) -> Session | None:
        """Go on with a session that was admitted before, by an earlier trainer; None when it is over.

        Args:
            client: The client.
            grant: What it was granted.
            beat: What it says of itself.
            last: The newest entry on its stream.
            now: Monotonic time, seconds.
        """
        if grant.status == "quarantined":
            self._cut_off[client] = grant.reason
        same = beat.session == grant.session and beat.run_id == self._run_id and not beat.leaving
        if grant.status == "refused" or not same or beat.num_envs < 1:
            return None
        session = Session(client, grant.session, beat.num_envs, now, grant.status, grant.reason)
        self._cut_off.pop(client, None)
        session.numbers = ChunkNumbers(below=None)  # what was acknowledged before the restart is not known
        # What it stored since its hello counts as received: credits are totals, and never go back.
        session.entries = min(beat.sent_chunks, grant.credit_entries)
        session.size = min(beat.sent_bytes, grant.credit_bytes)
        session.granted_entries, session.granted_bytes = grant.credit_entries, grant.credit_bytes
        session.most_entries, session.most_size = grant.credit_entries, grant.credit_bytes
        session.granted_steps = grant.credit_steps or 0
        session.steps = min(beat.sent_steps, session.granted_steps)
        session.since = last
        self.by_client[client] = session
        return session

    def end(self, client: str) -> None:
        """End a client's session, if it has one; what was refused of it is remembered."""
        session = self.by_client.pop(client, None)
        if session is None:
            return
        if session.rejected:
            self._rejected_before.setdefault(client, Counter()).update(session.rejected)
        if session.status == "quarantined":
            self._cut_off[client] = session.reason
        if session.in_a_row:
            self._in_a_row[client] = session.in_a_row  # a new hello makes nobody better
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
            self._cut_off[client] = reason

    def release(self, client: str) -> bool:
        """Let a client that was cut off send again; return whether it was."""
        session = self.by_client.get(client)
        if session is None or session.status != "quarantined":
            self._in_a_row.pop(client, None)
            return self._cut_off.pop(client, None) is not None
        session.release()
        return True

    def end_all(self) -> None:
        """End every session: the server has lost them, and each client begins another one.

        The ids of those may be smaller: the clock of the server may have been stepped back.
        """
        for client in list(self.by_client):
            self.end(client)

    def forget_all_but(self, clients: Iterable[str]) -> None:
        """End the sessions of clients that are not listed any more; of them only the sum is kept."""
        listed = set(clients)
        for client in set(self.by_client) - listed:
            self.end(client)
        for client in set(self._cut_off) - listed:
            del self._cut_off[client]
        for client in set(self._in_a_row) - listed:
            del self._in_a_row[client]
        for client in set(self._rejected_before) - listed:
            self._rejected_of_forgotten.update(self._rejected_before.pop(client))

    def refusals(self) -> Refusals:
        """Return what was refused and what is missing, as of now."""
        by_client = {client: Counter(counts) for client, counts in self._rejected_before.items()}
        for client, session in self.by_client.items():
            if session.rejected:
                by_client.setdefault(client, Counter()).update(session.rejected)
        total = Counter(self._rejected_of_forgotten)
        for counts in by_client.values():
            total.update(counts)
        missing = self._missing_before + sum(session.numbers.missing for session in self.by_client.values())
        return Refusals(dict(total), {client: dict(counts) for client, counts in by_client.items()}, missing)

    def count_unadmitted(self, client: str, reason: str, count: int = 1) -> None:
        """Count entries of a client that has no session, or may not send."""
        if count:
            self._rejected_before.setdefault(client, Counter())[reason] += count
