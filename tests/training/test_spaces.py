"""Waiting for the first client to tell the spaces: what is believed, and what is answered meanwhile."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import client_settings
from soulsgui.errors import EnvironmentMissingError
from soulsgui.training import spaces
from soulsgui.training.spaces import WAITING, FirstClient, find_spaces, spaces_found
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.server_config import ON_POLICY, ServerConfig, contract_hash
from soulsgui.wire.messages.session import HELLO_FIELD, SessionHello
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import answers_of, ask_node, found, small_settings

SETTINGS = small_settings(env__id="no_such_game:Game-v0", clients__local=0)
SPACES: dict[str, Any] = {
    "observation": {"type": "box", "shape": [3], "dtype": "float32", "low": None, "high": None},
    "action": {"type": "discrete", "n": 2, "start": 0},
}


class _Waiting:
    def __init__(self, address: Address, run: RunFolder) -> None:
        self.stop = threading.Event()
        self.found: bool | None = None
        self._wait = FirstClient(SETTINGS, run, address, self.stop).wait
        self.thread = threading.Thread(target=self._run, name="trainer")
        self.thread.start()

    def _run(self) -> None:
        self.found = self._wait()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    return folder


@pytest.fixture
def waiting(redis_address: Address, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Waiting]:
    monkeypatch.setattr(spaces, "_LOOK_EVERY_S", 0.05)
    made = _Waiting(redis_address, run)
    yield made
    made.stop.set()
    made.thread.join()


def _hello(connection: redis.Redis, keys: Keys, spaces: dict[str, Any] | None, **changed: Any) -> None:
    told = client_settings(SETTINGS)
    env = told["env.id"], told["env.kwargs"], told["env.wrappers"]
    said: dict[str, Any] = {
        "client": "c",
        "instance": Instance(),
        "run_id": "run",
        "contract": contract_hash(*env, spaces or {}, ON_POLICY),
        "num_envs": 1,
        "spaces": spaces,
    }
    connection.hset(keys.clients, "c", "{}")
    connection.xadd(keys.chunks("c"), {HELLO_FIELD: SessionHello(**said | changed).to_json()})


def _state(connection: redis.Redis, keys: Keys) -> NodeState:
    """What it tells of itself, once it does."""
    return found(lambda: NodeState.read(connection.get(keys.node("trainer"))), "its state")


def _looked_again(connection: redis.Redis, keys: Keys) -> None:
    since = _state(connection, keys).tick
    until(lambda: _state(connection, keys).tick > since + 4, "it looked again")


@pytest.mark.allow_warnings
def test_it_describes_the_run_and_takes_the_first_spaces_that_fit(
    redis_client: redis.Redis, keys: Keys, run: RunFolder, waiting: _Waiting
) -> None:
    until(lambda: redis_client.exists(keys.config, keys.node("trainer")) == 2, "the run is described")
    config = ServerConfig.read(redis_client.get(keys.config))
    assert (config.run_id, config.spaces, config.settings["env.id"]) == ("run", {}, "no_such_game:Game-v0")
    state = _state(redis_client, keys)
    assert (state.phase, state.detail) == ("waiting", WAITING)
    for bad, changed in (
        (None, {}),
        ({"observation": 1}, {}),
        (SPACES, {"contract": "other"}),
        (SPACES, {"run_id": "earlier"}),
        (SPACES, {"client": "somebody"}),
        (SPACES | {"observation": SPACES["observation"] | {"shape": [10**12]}}, {}),
    ):
        _hello(redis_client, keys, bad, **changed)
    _looked_again(redis_client, keys)
    assert not run.spaces.exists()

    def sent() -> int:
        return int(redis_client.info("stats")["total_net_output_bytes"])  # type: ignore[index]

    for _ in range(4):
        redis_client.xadd(keys.chunks("c"), {"c": bytes(2**20)})
    _looked_again(redis_client, keys)
    before = sent()
    _looked_again(redis_client, keys)
    assert sent() - before < 2**20, "what was looked at once is not read again"
    masked = SPACES | {"action": SPACES["action"] | {"masked": True}}
    _hello(redis_client, keys, masked)
    waiting.thread.join(LIMIT_S)
    assert waiting.found is True
    assert json.loads(run.spaces.read_bytes()) == masked
    assert spaces_found(SETTINGS, run)
    assert find_spaces(SETTINGS, run).action.masked, "masks are part of the spaces that are told"


@pytest.mark.allow_warnings
def test_asked_to_stop_it_answers_and_ends(redis_client: redis.Redis, keys: Keys, waiting: _Waiting) -> None:
    asked = [ask_node(redis_client, keys, command) for command in ("save", "stop")]
    waiting.thread.join(LIMIT_S)
    assert waiting.found is False
    assert [[one.ok for one in answers_of(redis_client, keys, id_)] for id_ in asked] == [[False], [True]]
    assert _state(redis_client, keys).farewell == "ended as asked"


def test_only_a_missing_module_without_local_clients_waits_for_a_client(run: RunFolder) -> None:
    assert not spaces_found(SETTINGS, run)
    for changed in ({"clients__local": 1}, {"clients__local": 0, "env__spaces": "server"}):
        with pytest.raises(EnvironmentMissingError, match="no_such_game"):
            spaces_found(small_settings(env__id="no_such_game:Game-v0", **changed), run)
    assert spaces_found(small_settings(), run)
    assert run.spaces.exists()
