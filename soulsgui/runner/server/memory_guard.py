"""Guards the memory of the Redis server: full, it would refuse even the weights.

From half of its limit on the trainer grants clients nothing more; but where one alone holds much, beside its
samples, which credits bound, that one is cut off. Beyond 70 % it is the one that holds most. It goes on by
itself when there is room again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import redis

from soulsgui.runner.events import EventLog
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.runner.status_text import size_words
from soulsgui.wire.connection import AWAY
from soulsgui.wire.keys import TRAINER, Keys, inference_number
from soulsgui.wire.node_commands import NodeCommand

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
MOST_LOG_BYTES = 4 * 2**20
"""More than the lines that a client keeps on the server take: nobody reads its log until it is asked for."""

_HALF, _FULL = 0.5, 0.7
_BELOW = 0.05
_HOLD_S = 5.0
_ANSWER_S = 2.0
_WORTH_CUTTING = 0.1
_MUCH = 0.3
_ALONE = 2  # times what the next one holds
_LOGS_EVERY = 5  # looks
_KEEP_OUT = "To keep it out: soulsgui revoke {}"

Level = Literal["", "half", "full"]

_FROM: dict[Level, float] = {"full": _FULL, "half": _HALF}


def memory_used(info: Mapping[str, Any]) -> int:
    """Return the bytes that count against the limit, as the server counts them itself, of its `INFO memory`.

    While the disk is slow, what was written lately waits beside it: it refuses nothing, and goes by itself.
    """
    return max(int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0)), 0)


def level_of(used: float, before: Level) -> Level:
    """Return how full the memory is; the level of before is left a little below where it is entered."""
    held = ("full", "half", "").index(before)
    for place, (level, start) in enumerate(_FROM.items()):
        if used >= (start - _BELOW if place >= held and before else start):
            return level
    return ""


def held_by_client(
    clients: Sequence[str], keys_of: Callable[[str], Sequence[str]]
) -> Callable[[redis.Redis], dict[str, int]]:
    """Return the operation that measures the bytes of memory that these keys of each client take up."""

    def measure(connection: redis.Redis) -> dict[str, int]:
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            for key in keys_of(client):
                pipeline.memory_usage(key, samples=0)  # all of it: its beginning may be small
        sizes = [size if isinstance(size, int) else 0 for size in pipeline.execute(raise_on_error=False)]
        each = len(sizes) // max(len(clients), 1)
        return {client: sum(sizes[n * each : (n + 1) * each]) for n, client in enumerate(clients)}

    return measure


def emptying(streams: Sequence[str], others: Sequence[str]) -> Callable[[redis.Redis], Any]:
    """Return the operation that takes everything off these streams, and the other keys away."""

    def trim(connection: redis.Redis) -> None:
        pipeline = connection.pipeline(transaction=False)
        for name in streams:
            pipeline.xtrim(name, maxlen=0, approximate=False)
        pipeline.delete(*others)
        pipeline.execute(raise_on_error=False)

    return trim


def removing_large_logs(keys: Keys, clients: Sequence[str]) -> Callable[[redis.Redis], Any]:
    """Return the operation that takes away the logs that their clients did not trim."""

    def remove(connection: redis.Redis) -> None:
        sizes = held_by_client(clients, lambda client: [keys.log(client)])(connection)
        large = [client for client, size in sizes.items() if size > MOST_LOG_BYTES]
        if large:
            logger.warning("larger than a log of a client may be, taken away: %s", ", ".join(large))
            connection.unlink(*map(keys.log, large))

    return remove


def dropping_requests(keys: Keys, clients: Sequence[str]) -> Callable[[redis.Redis], dict[str, int]]:
    """Return the operation that throws requests away, and says of how many bytes they were, by client."""

    def drop(connection: redis.Redis) -> dict[str, int]:
        names = [keys.requests(client) for client in clients]
        if not names or not connection.exists(*names):
            return {}
        held = held_by_client(clients, lambda client: [keys.requests(client)])(connection)
        connection.unlink(*names)
        return held

    return drop


class MemoryGuard:
    """Looks at the memory, and does what is needed; `words` say how full it is, once that matters.

    While it `refuses` to write, nobody's signs of life arrive.
    """

    def __init__(
        self,
        bus: Bus,
        events: EventLog,
        clients: Callable[[], Sequence[str]],
        trainer_runs: Callable[[], bool],
        run_id: Callable[[], str],
    ) -> None:
        self.words = ""
        self.refuses = False
        self._bus = bus
        self._events = events
        self._clients = clients
        self._trainer_runs = trainer_runs
        self._run_id = run_id
        self._level: Level = ""
        self._why = ""
        self._told: set[tuple[str, bool]] = set()  # of whom, and whether it was cut off, at this level
        self._reasons: dict[str, str] = {}
        self._looks = 0
        self._askers: set[str] = set()  # that were told of, since they ask an inference server where none is

    def has_told_of(self, client: str, reason: str) -> bool:
        """Whether it was told here that a client was cut off for this reason."""
        return self._reasons.get(client) == reason

    async def cut_off(self, client: str, reason: str) -> bool:
        """Have the trainer take nothing of a client any more; return whether it does that."""
        # At once: the trainer writes its grant before it answers.
        before, self._reasons[client] = self._reasons.get(client, ""), reason
        asked = await self._ask(NodeCommand(command="cut", args={"client": client, "reason": reason}))
        if not asked:
            self._reasons[client] = before
        return asked

    async def look(self) -> None:
        """Look once; a server that is away, or that has no limit, is left alone."""
        self._looks += 1
        try:
            if self._looks % _LOGS_EVERY == 0:
                await self._bus.call(removing_large_logs(self._bus.keys, self._clients()))
            info = await self._bus.call(lambda connection: connection.info("memory"))
            used, limit = memory_used(info), int(info.get("maxmemory", 0))
            self.refuses = 0 < limit <= used
            if limit:
                await self._take(used, limit)
            await self._drop_requests()
        except (*AWAY, redis.RedisError) as error:
            logger.debug("the server's memory can't be looked at: %s", error)

    async def _take(self, used: int, limit: int) -> None:
        part, before = used / limit, self._level
        self._level = level_of(part, before)
        if self._level != before:
            self._told.clear()
            self._why = await self._find_cause(used) if self._level else ""
            self._tell(f"{part:.0%} of its {size_words(limit)}", before)
        self.words = f"memory {part:.0%} full: clients wait. {self._why}" if self._level else ""
        if self._level == "half" and await self._cut_who_is_alone(limit):
            return
        if self._level:
            answers = await self._ask(NodeCommand(command="hold", args={"seconds": _HOLD_S}))
            if self._level == "full":
                await self._cut_worst(await self._held(), limit, answers)

    def _tell(self, filled: str, before: Level) -> None:
        if not self._level:
            what = f"The memory of Redis has enough space again: {filled} are used."
            self._events.add("info", what, service=REDIS, run_id=self._run_id())
        elif before != "full":
            remedy = "It continues by itself when there is space; redis.max_memory gives it more."
            what = f"The memory of Redis fills up: {filled} are used; clients get no more credits."
            self._events.add("warning", what, self._why, remedy, service=REDIS, run_id=self._run_id())

    async def _held(self, credited: bool = True) -> dict[str, int]:
        """Return the bytes that each client holds; without what it was granted, its samples, or with it."""
        keys = self._bus.keys

        def keys_of(client: str) -> list[str]:
            chunks, *others = keys.streams(client)
            return [*([chunks] if credited else []), *others, *keys.others(client)]

        return await self._bus.call(held_by_client(self._clients(), keys_of))

    async def _drop_requests(self) -> None:
        """Throw requests away where no inference server takes them, and name who asked for much."""
        clients = self._clients()
        if any(map(inference_number, clients)):
            return
        dropped = await self._bus.call(dropping_requests(self._bus.keys, clients))
        for client, size in dropped.items():
            if size > MOST_LOG_BYTES and client not in self._askers:
                self._askers.add(client)
                what = (
                    f"{client} asks an inference server, and there is none: {size_words(size)} were deleted."
                )
                self._events.add(
                    "warning", what, "", _KEEP_OUT.format(client), service=REDIS, run_id=self._run_id()
                )

    async def _cut_who_is_alone(self, limit: int) -> bool:
        """Cut off who holds much more than any other, beside its samples; return whether there is one."""
        held = await self._held(credited=False)
        *_, second, most = 0, 0, *sorted(held.values())
        return most >= _ALONE * second and await self._cut_worst(held, limit, trainer_answers=True)

    async def _find_cause(self, used: int) -> str:
        held = await self._held()
        waiting = sum(held.values())
        most = max(held, key=lambda client: held[client], default="")
        if waiting >= _MUCH * used:
            return (
                f"{size_words(waiting)} of it wait to be read, most of it from {most} "
                f"({size_words(held[most])})."
            )
        return (
            f"Clients are not the cause: {size_words(waiting)} of it come from them; the rest are weights, "
            "curves and what the server itself needs."
        )

    async def _ask(self, command: NodeCommand) -> bool:
        """Ask the trainer for something; return whether it did that."""
        return self._trainer_runs() and await self._bus.tell(TRAINER, command, _ANSWER_S)

    async def _cut_worst(self, held: Mapping[str, int], limit: int, trainer_answers: bool) -> bool:
        """Cut off who holds most, if it is worth that; return whether it is."""
        keys = self._bus.keys
        worst = max(held, key=lambda client: held[client], default="")
        if not worst or held[worst] < _WORTH_CUTTING * limit:
            return False
        reason = f"it held {size_words(held[worst])} of the server's {size_words(limit)}"
        asked = trainer_answers and await self.cut_off(worst, reason)
        chunks, *others = keys.streams(worst)
        await self._bus.call(emptying(others if asked else [chunks, *others], keys.others(worst)))
        if (worst, asked) not in self._told:
            self._told.add((worst, asked))
            self._tell_of(worst, reason, asked)
        return True

    def _tell_of(self, client: str, reason: str, cut_off: bool) -> None:
        keep_out = _KEEP_OUT.format(client)
        if cut_off:
            what = f"{client} was cut off: {reason}."
            cause = "What it had sent was deleted from the server, unread."
            remedy = f"Look at it, then let it send again: soulsgui clients release {client}. {keep_out}"
        else:
            what = f"What {client} had sent was deleted from the server, unread: {reason}."
            cause = "No trainer answers to cut it off, so it may keep sending."
            remedy = f"Look at the trainer and at {client}. {keep_out}"
        self._events.add("warning", what, cause, remedy, service=REDIS, run_id=self._run_id())
