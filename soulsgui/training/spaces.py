"""The spaces of a run: found by the probe, by making the environment, or told by the first client."""

import json
import logging
import math
import threading
from pathlib import Path
from typing import cast

import numpy as np
import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, client_settings
from soulsgui.environments.choices import gives_masks
from soulsgui.environments.make import make_env
from soulsgui.environments.spaces import SpacesSpec, spaces_words
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError
from soulsgui.system import atomic_write
from soulsgui.training.status import QUIET_END, StateReporter
from soulsgui.wire.beats import clients_of, own_instance
from soulsgui.wire.connection import AWAY, Address, Link
from soulsgui.wire.keys import TRAINER, EntryId, Keys
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.server_config import ServerConfig, contract_hash, family_of
from soulsgui.wire.messages.session import HELLO_FIELD, SessionHello
from soulsgui.wire.node_commands import CommandReader, NodeAnswer

logger = logging.getLogger(__name__)

WAITING = "for the first client to tell the spaces"

_LOOK_EVERY_S = 0.25
_ENTRIES_LOOKED_AT = 10  # of each client at once; who was granted nothing sends no more than hellos
_MOST_ACTIONS = 2**20

Entries = list[tuple[bytes, dict[bytes, bytes]]]


def find_spaces(settings: Settings, run: RunFolder) -> SpacesSpec:
    """Read what the probe found, or make the environment here."""
    return _read_spaces(run.spaces) if run.spaces.exists() else spaces_here(settings)


def spaces_here(settings: Settings) -> SpacesSpec:
    """Make the environment in this process, and return its spaces."""
    env = settings.env
    made = make_env(env.id, env.kwargs, env.wrappers)
    try:
        spaces = SpacesSpec.from_env(made.observation_space, made.action_space)
        masked = gives_masks(made.reset(seed=settings.seed)[1])
        return spaces.with_masks(masked)
    finally:
        made.close()


def spaces_found(settings: Settings, run: RunFolder) -> bool:
    """Make sure that the spaces stand in the run's folder; return False where a client is to tell them."""
    try:
        spaces = find_spaces(settings, run)
    except EnvironmentMissingError:
        if not settings.a_client_may_tell_the_spaces:
            raise
        return False
    if not run.spaces.exists():
        atomic_write(run.spaces, json.dumps(spaces.to_json(), indent=1).encode())
    return True


def _read_spaces(path: Path) -> SpacesSpec:
    try:
        return SpacesSpec.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError, EnvironmentCheckError) as error:
        reason = error.message if isinstance(error, EnvironmentCheckError) else repr(error)
        raise EnvironmentCheckError(
            f"{path} can't be read: {reason}",
            "Remove the file and resume the run: the environment is probed again.",
        ) from error


class FirstClient:
    """Waits for a client that can make the environment, and writes what it tells into the run's folder."""

    def __init__(self, settings: Settings, run: RunFolder, address: Address, stop: threading.Event) -> None:
        told = client_settings(settings)
        self._env = told["env.id"], told["env.kwargs"], told["env.wrappers"]
        self._family = family_of(settings.algorithm)
        self._run = run
        self._stop = stop
        self._keys = Keys(address.prefix)
        self._link = Link(address, stop, TRAINER)
        self._reader = CommandReader(self._keys, TRAINER)
        self._config = ServerConfig(
            run_id=run.run_id, attempt=0, contract="", spaces={}, policy={}, settings=told, seed=settings.seed
        )
        self._instance = own_instance()
        self._tick = 0
        self._seen: dict[str, EntryId] = {}  # the newest entry that was looked at, by client
        self._farewell = ""
        self._reporter = StateReporter(address, TRAINER, self._state)

    def wait(self) -> bool:
        """Wait until the spaces are known; return False when it was asked to stop before."""
        logger.info("waiting %s", WAITING)
        self._reporter.start()
        spaces = None
        try:
            while spaces is None and not self._stop.is_set():
                self._tick += 1
                try:
                    spaces = self._look(self._link.redis)
                    self._link.back()
                except AWAY as error:
                    self._seen.clear()  # after a loss of its data the ids of a server may begin anew
                    self._link.lost(error)
                except redis.ResponseError as error:
                    self._link.refused(error)
                self._stop.wait(0 if spaces is not None else _LOOK_EVERY_S)
            if spaces is not None:
                atomic_write(self._run.spaces, json.dumps(spaces.to_json(), indent=1).encode())
            return spaces is not None
        finally:
            self._farewell = "" if spaces is not None else QUIET_END
            self._reporter.close()
            self._link.close()

    def _look(self, connection: redis.Redis) -> SpacesSpec | None:
        """Describe the run, obey, and return what a client told, None when none did yet."""
        text = self._config.to_json()
        if connection.get(self._keys.config) != text.encode():
            pipeline = connection.pipeline(transaction=True)
            pipeline.set(self._keys.config, text)
            pipeline.publish(self._keys.weights_event, WAITING)
            pipeline.execute()
        self._obey(connection)
        for client in clients_of(connection, self._keys):
            found = self._told_by(connection, client)
            if found is not None:
                return found
        return None

    def _obey(self, connection: redis.Redis) -> None:
        """Answer commands: there is nothing to save, and nothing goes on that could rest."""
        for command in self._reader.poll(connection):
            may = command.command in ("stop", "rest")
            error = "" if may else "Nothing was trained yet: the run waits " + WAITING
            self._reader.answer(connection, NodeAnswer(id=command.id, ok=may, error=error))
            if command.command == "stop":
                self._stop.set()

    def _told_by(self, connection: redis.Redis, client: str) -> SpacesSpec | None:
        key, seen = self._keys.chunks(client), self._seen.get(client)
        after = "-" if seen is None else str(seen.next)
        try:
            entries = cast("Entries", connection.xrevrange(key, min=after, count=_ENTRIES_LOOKED_AT))
        except redis.ResponseError:
            return None  # something else stands under the name of its stream
        if entries:
            self._seen[client] = EntryId.parse(entries[0][0])
        for _, fields in entries:
            hello = SessionHello.read(fields.get(HELLO_FIELD))
            if hello is None or hello.client != client or hello.run_id != self._run.run_id:
                continue
            spaces = self._read(hello)
            if spaces is not None:
                logger.info("%s told the spaces: it shows %s; it takes %s", client, *spaces_words(spaces))
                return spaces
            logger.warning("%s told no spaces that fit to its contract", client)
        return None

    def _read(self, hello: SessionHello) -> SpacesSpec | None:
        try:
            spaces = SpacesSpec.from_json(hello.spaces or {})
        except EnvironmentCheckError:
            return None
        shown, taken = spaces.observation, max(sum(spaces.action.sizes), math.prod(spaces.action.shape))
        if shown.size * np.dtype(shown.dtype).itemsize > MAX_CHUNK_BYTES or taken > _MOST_ACTIONS:
            return None  # whatever it is: no observation of it could be sent
        # Without a state: there is no policy before the spaces are known.
        same = contract_hash(*self._env, spaces.to_json(), self._family) == hello.contract
        return spaces if same else None

    def _state(self) -> NodeState:
        return NodeState(
            name=TRAINER,
            instance=self._instance,
            tick=self._tick,
            phase="stopping" if self._farewell else "waiting",
            detail=WAITING,
            run_id=self._run.run_id,
            farewell=self._farewell,
        )
