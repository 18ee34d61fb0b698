"""One client's session: what came of it, what it is granted, and what was refused."""

import logging
from collections import Counter
from dataclasses import dataclass, field

from soulsgui.training.exploring import Orders
from soulsgui.training.numbers import ChunkNumbers
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Grant, GrantStatus, GreedyOrder, RoundShare

logger = logging.getLogger(__name__)

ENTRIES_AHEAD = 4096
"""Entries a client may have on the way."""

_QUARANTINE_AFTER = 50
_BEFORE_ALL = EntryId(0, 0)


@dataclass
class Session:
    """One client's session as the trainer sees it.

    Attributes:
        client: The client's id.
        id: Entry id of its hello.
        num_envs: Environments it steps side by side.
        began_at: Monotonic time of the hello, seconds.
        status: `accepted`, `refused` or `quarantined`.
        reason: Why it is not accepted.
        rejected: Refused segments by reason.
        in_a_row: Refused segments since the last accepted one.
        entries: Chunks received since the hello.
        size: Their bytes.
        steps: Transitions in them, accepted or not.
        since: Entries after this one are counted.
        taken: Newest entry that was taken over or refused; what comes again with it or before it is not new.
        stored: Chunks it had stored when its beat was last looked at.
        stored_steps: Transitions in them.
        told: How it was told to explore.
        plays: Whether it takes part, as far as is known.
        most_entries: Most entries that it was ever granted, 0 before it was granted any.
        most_size: Their bytes, likewise.
        round: Its part of the present round.
        greedy: The evaluation that its client is to play.
        told_greedy: The one that stands in its grant.
        share: Which part of all that comes is of it, 0 to 1; None while nothing comes.
        told_share: The one that stands in its grant.
    """

    client: str
    id: str
    num_envs: int
    began_at: float = 0.0
    status: GrantStatus = "accepted"
    reason: str = ""
    numbers: ChunkNumbers = field(default_factory=ChunkNumbers)
    rejected: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0
    entries: int = 0
    size: int = 0
    steps: int = 0
    since: EntryId = _BEFORE_ALL
    taken: EntryId = _BEFORE_ALL
    stored: int = 0
    stored_steps: int = 0
    granted_entries: int = 0
    granted_bytes: int = 0
    granted_steps: int = 0
    most_entries: int = 0
    most_size: int = 0
    told: Orders | None = None
    plays: bool = True
    round: RoundShare | None = None
    greedy: GreedyOrder | None = None
    told_greedy: GreedyOrder | None = None
    share: float | None = None
    told_share: float | None = None

    def grant(
        self,
        bytes_ahead: int,
        steps_ahead: int | None = None,
        orders: Orders | None = None,
        held: bool = False,
    ) -> Grant:
        """Return the grant to write now.

        Args:
            bytes_ahead: Bytes the client may have on the way.
            steps_ahead: Transitions it may have on the way; None for any number.
            orders: How it is to explore; None: as its policy says.
            held: Whether no more is granted than was before.
        """
        if not held:
            self.granted_entries = self.entries + ENTRIES_AHEAD
            self.granted_bytes = self.size + bytes_ahead
            self.most_entries = max(self.most_entries, self.granted_entries)
            self.most_size = max(self.most_size, self.granted_bytes)
            if steps_ahead is not None:  # what was granted once can't be taken back
                self.granted_steps = max(self.granted_steps, self.steps + steps_ahead)
        self.told, self.told_greedy, self.told_share = orders, self.greedy, self.share
        exploring = orders or Orders()
        return Grant(
            session=self.id,
            status=self.status,
            reason=self.reason,
            credit_entries=self.granted_entries,
            credit_bytes=self.granted_bytes,
            credit_steps=None if steps_ahead is None else self.granted_steps,
            epsilon=exploring.epsilon,
            temperature=exploring.temperature,
            ladder=exploring.ladder,
            rejected=dict(self.rejected),
            round=self.round,
            greedy=self.greedy,
            share=None if self.share is None else round(self.share, 3),
        )

    def received(self, size: int, number: int | None, entry: EntryId | None = None) -> bool:
        """Count an entry; return False when its number was there before.

        Args:
            size: Its bytes.
            number: Its number within the session, None when it has none.
            entry: Its id; those that were on the stream before this trainer came are not counted again.
        """
        if entry is None or entry > self.since:
            self.entries += 1
            self.size += size
        return number is None or self.numbers.take(number)

    def expected(self, numbers: list[int | None], first: EntryId) -> list[int] | None:
        """Return the numbers of entries that are the next ones of the session; None when they are not.

        Args:
            numbers: Their numbers, at least one.
            first: Id of the first of them.
        """
        known = [number for number in numbers if number is not None]
        follow = len(known) == len(numbers) and first > self.since and self.numbers.follow(known)
        return known if follow else None

    def received_run(self, size: int, steps: int, numbers: list[int]) -> None:
        """Count good entries that are `expected`, as `received`, `received_steps` and `refuse` would.

        Args:
            size: Their bytes.
            steps: Their transitions.
            numbers: Their numbers within the session.
        """
        self.numbers.take_all(numbers)
        self.entries += len(numbers)
        self.size += size
        self.steps += steps
        self.in_a_row = 0

    def passed_over(self, size: int, numbers: list[int | None]) -> None:
        """Count entries that are not looked at, because the session may not send.

        Args:
            size: Their bytes.
            numbers: Their numbers within the session.
        """
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
        """Whether more has come of it than it was ever granted; whoever has anything left may send one entry.

        Args:
            newest: Bytes of the newest entry.
        """
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
        """Take nothing of it any more until it is released.

        Args:
            reason: Why, in words.
        """
        self.status, self.reason, self.round = "quarantined", reason, None

    def release(self) -> None:
        """Let it send again, with a clean row; what was granted to it before counts as used."""
        self.status, self.reason, self.in_a_row = "accepted", "", 0
        self.steps = max(self.steps, self.granted_steps)

    def refuse(self, reasons: dict[str, int], accepted: int) -> bool:
        """Count refused segments; return whether the client is cut off by this.

        A client is cut off when it fails many times without one good segment between.
        """
        self.rejected.update(reasons)
        harmful = sum(count for reason, count in reasons.items() if reason != Reason.LATE)
        self.in_a_row = 0 if accepted else self.in_a_row + harmful
        if self.in_a_row < _QUARANTINE_AFTER or self.status != "accepted":
            return False
        worst = max(self.rejected, key=lambda reason: self.rejected[reason])
        self.cut_off(f"{self.in_a_row} refused segments in a row, most of them {worst}")
        return True
