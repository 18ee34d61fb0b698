"""What a client hears and says: weights, grants and wishes at once, beats until the goodbye."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.config.schema import Settings, all_settings, client_settings
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec, reference_observation
from soulsgui.errors import ClientRegistrationError
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.sampling import downloader, heartbeat
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.heartbeat import own_versions
from soulsgui.sampling.link import ClientLink, check_network, checked_config
from soulsgui.sampling.progress import Progress
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.beats import own_instance
from soulsgui.wire.codec import pack_weights, unpack_weights
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import PROTOCOL, Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant, RoundShare
from tests.faults.server import FaultyServer
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import beat_of, wish_for
from tests.training.nodes import small_settings

CONFIG = ServerConfig(run_id="run-1", attempt=1, contract="x", spaces={}, policy={})
_WITHOUT_A_REASON_S = 2 * LIMIT_S
"""After so long things are looked at and told by themselves: what a test waits for came at once."""


class _Server:
    """The trainer's and the runner's side of the keys."""

    def __init__(self, address: Address, connection: redis.Redis) -> None:
        self.keys = Keys(address.prefix)
        self.connection = connection
        self.publisher = Publisher(self.keys, CONFIG)
        self.wish = partial(wish_for, connection, self.keys)
        self.beat = partial(beat_of, connection, self.keys)

    def publish(self, model_id: int, session: str = "", steps: int = 8, size: int = 3) -> None:
        weights = {"w": np.full(size, model_id, np.float32)}
        self.publisher.prepare(TrainingPosition(model_id, model_id, 0, 0), weights)
        share = RoundShare(round_id=model_id, steps=steps)
        grants = {"c": Grant(session=session, status="accepted", round=share)} if session else {}
        self.publisher.publish(self.connection, grants)


@pytest.fixture
def trainer(redis_address: Address, redis_client: redis.Redis) -> _Server:
    return _Server(redis_address, redis_client)


@pytest.fixture
def link(redis_address: Address, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientLink]:
    monkeypatch.setattr(downloader, "_LOOK_AT_LEAST_EVERY_S", _WITHOUT_A_REASON_S)
    monkeypatch.setattr(heartbeat, "PERIOD_S", _WITHOUT_A_REASON_S)
    made = ClientLink(redis_address, "c", 2, threading.Event())
    made.open()
    yield made
    made.close()


def _entered(link: ClientLink) -> str:
    """Return the session that it has begun."""
    link.enter(CONFIG, "x", 10_000)
    until(lambda: link.progress.session, "the hello")
    return link.progress.session


def _model_id(view: ServerView) -> int | None:
    return None if view.header is None else view.header.model_id


def test_weights_and_wishes_are_heard_and_answered_at_once(link: ClientLink, trainer: _Server) -> None:
    until(trainer.beat, "the first beat")
    for model_id in (3, 4):
        trainer.publish(model_id)
        assert link.wait(lambda view, wanted=model_id: _model_id(view) == wanted, LIMIT_S)
        np.testing.assert_array_equal(link.view.tensors["w"], np.full(3, model_id, np.float32))
    assert link.view.config == CONFIG
    wish = trainer.wish("pause")
    assert link.wait(lambda view: view.wish == wish, LIMIT_S)
    link.answer(wish)
    link.set_phase("paused")
    told = lambda: (beat := trainer.beat()) and beat.answered and beat.phase == "paused"  # noqa: E731
    until(told, "the answer")


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("size", "place"), [(3, 0), (100_000, 0), (100_000, 300_000)])
def test_damaged_weights_are_ignored(
    link: ClientLink, trainer: _Server, caplog: pytest.LogCaptureFixture, size: int, place: int
) -> None:
    trainer.publish(1, size=size)
    assert link.wait(lambda view: view.header is not None, 10)
    if place:  # a new head before a damaged body
        trainer.publisher.prepare(TrainingPosition(9, 9, 0, 0), {"w": np.zeros(size, np.float32)})
        damaged = bytearray(trainer.publisher._blob)
        damaged[place] ^= 1
        trainer.connection.set(trainer.keys.weights, bytes(damaged))
    else:
        trainer.connection.setrange(trainer.keys.weights, 0, "garbage garbage")
    trainer.connection.publish(trainer.keys.weights_event, "2")
    until(lambda: "weights ignored" in caplog.text, "the damage is noticed")
    assert _model_id(link.view) == 1
    trainer.publish(10)
    assert link.wait(lambda view: _model_id(view) == 10, 10)


def test_weights_arrive_whole_and_large_ones_in_one_answer_once_their_size_is_known(
    redis_address: Address, trainer: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    views: list[ServerView] = []
    listening = downloader.Downloader(redis_address, "c", views.append, lambda: None)
    asked_again = []
    ask = listening._link.redis.getrange

    def watched(*what: Any) -> Any:
        asked_again.append(len(views) + 1)
        return ask(*what)

    monkeypatch.setattr(listening._link.redis, "getrange", watched)
    for model_id, size in enumerate((100, 100_000, 100_000, 100_100, 300_000, 1_500_000, 1_500_000, 10), 1):
        trainer.publish(model_id, size=size)
        listening._look(noticed=True)
        assert _model_id(views[-1]) == model_id
        np.testing.assert_array_equal(views[-1].tensors["w"], np.full(size, model_id, np.float32))
    listening.close()
    assert asked_again == [2, 5, 6, 7], "grown by far, or too large to be sent twice for nothing"


def test_waiting_ends_when_stopped_and_with_a_goodbye_beat(redis_address: Address, trainer: _Server) -> None:
    stop = threading.Event()
    link = ClientLink(redis_address, "c", 2, stop)
    link.open()
    until(trainer.beat, "the first beat")
    link.progress.stepped(7)
    assert not link.wait(lambda _: False, 0.01)
    stop.set()
    assert not link.wait(lambda _: False)
    link.close()
    beat = trainer.beat()
    assert (beat.leaving, beat.env_steps, beat.num_envs) == (True, 7, 2)
    left_s = trainer.connection.ttl(trainer.keys.beat("c"))
    assert EXPIRY_S - 60 < int(str(left_s)) <= EXPIRY_S


@pytest.mark.allow_warnings
def test_all_is_heard_again_after_the_server_was_away(server: FaultyServer, connection: redis.Redis) -> None:
    trainer = _Server(server.address, connection)
    link = ClientLink(server.address, "c", 2, threading.Event())
    link.open()
    trainer.publish(1)
    assert link.wait(lambda view: _model_id(view) == 1, 10)
    before = _entered(link)
    server.restart()  # without its data
    assert link.wait(lambda view: view.header is None, 10)
    until(lambda: link.progress.session > before, "a new session")
    trainer.publish(2, link.progress.session)
    assert link.wait(lambda view: link.ready_round(view, 1) is not None, 10)
    wish = trainer.wish("pause")
    assert link.wait(lambda view: view.wish == wish, 10)
    until(trainer.beat, "beats go on")
    link.close()


def test_a_round_is_ready_with_its_grant_and_its_weights(link: ClientLink, trainer: _Server) -> None:
    session = _entered(link)
    trainer.publish(5, session, steps=9)
    assert link.wait(lambda view: view.grant is not None, 10)
    ready = link.ready_round(link.view, -1)
    assert (ready.share.round_id, ready.share.steps, ready.header.model_id) == (5, 9, 5)
    assert link.ready_round(link.view, 5) is None  # played
    grant = Grant(session=session, status="accepted", round=RoundShare(round_id=6, steps=9))
    trainer.publisher.tell_all(trainer.connection, {"c": grant})
    assert link.wait(lambda view: view.grant is not None and view.grant.round != ready.share, 10)
    assert link.ready_round(link.view, 5) is None  # its weights are not here
    assert link._uploader.failure is None


@pytest.mark.parametrize(
    ("grant", "reason"),
    [
        (Grant(session="SESSION", status="refused", reason="other spaces"), "refused this client: other sp"),
        (Grant(session="9999999999999-1", status="accepted"), "Another process took over"),
    ],
)
@pytest.mark.parametrize(("before", "own"), [("1-0", ""), ("9999999999999-0", "9999999999999-0")])
def test_refused_sessions_and_names_taken_over_end_in_words_and_the_grant_of_one_before_is_no_answer(
    link: ClientLink, trainer: _Server, grant: Grant, reason: str, before: str, own: str
) -> None:
    """Ours has a smaller id when the server lost its data, and its clock was stepped back."""
    link.progress.session = own
    link.enter(CONFIG, "x", 10_000)
    until(lambda: link.progress.session not in ("", own), "the hello")
    trainer.publish(1, before)
    assert link.wait(lambda view: view.grant is not None, 10)
    assert link.answer_of_trainer(link.view) is None
    session = grant.session.replace("SESSION", link.progress.session)
    trainer.publisher.tell_all(trainer.connection, {"c": grant.model_copy(update={"session": session})})
    with pytest.raises(ClientRegistrationError, match=reason):
        link.wait(lambda view: link.answer_of_trainer(view) is not None, 10)


def test_what_a_server_tells_is_taken_what_it_leaves_out_is_as_shipped_and_what_is_strange_is_told() -> None:
    told = CONFIG.model_copy(update={"settings": {"env.num_envs": 7, "env.of_a_newer_version": 1}})
    expected = client_settings(Settings()) | {"env.num_envs": 7}
    assert checked_config(told, _progress()).settings == expected
    assert {"soulsgui", "gymnasium", "numpy"} <= set(own_versions())
    for strange, said in (
        ({"settings": {"clients.min_versions": {"soulsgui": "9" * 5000}}}, r"soulsgui|can't be used"),
        ({"settings": {"clients.min_versions": {"soulsgui": "1e999", "": "x"}}}, r"soulsgui|can't be used"),
        ({"policy": {"state": {"h": [-1]}}}, "The server's policy can't be used"),
        ({"protocol_min": PROTOCOL + 1, "protocol_max": PROTOCOL + 2}, "protocol"),
        ({"protocol_min": PROTOCOL - 1, "protocol_max": PROTOCOL - 1}, "protocol"),
    ):
        with pytest.raises(ClientRegistrationError, match=said):
            checked_config(CONFIG.model_copy(update=strange), _progress())


_NONSENSE = [(key, [-1]) for key, info in all_settings().items() if info.to_clients]
_NONSENSE += [
    ("env.num_envs", value) for value in ("lots", -3, 0, 10**9, 1.5, True, None, {"a": 1}, "9" * 5000)
]


@pytest.mark.parametrize(("key", "value"), _NONSENSE)
def test_nonsense_of_a_server_is_one_sentence_with_what_to_do(key: str, value: Any) -> None:
    with pytest.raises(ClientRegistrationError) as caught:
        checked_config(CONFIG.model_copy(update={"settings": {key: value}}), _progress())
    assert caught.value.message.startswith(f"The server's configuration can't be used: {key} = ")
    assert len(caught.value.message) < 300
    assert "Tell its owner" in caught.value.remedy


def _progress() -> Progress:
    return Progress("c", own_instance(), 1, own_versions())


SPACES = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3))


@pytest.mark.parametrize("kind", [PPOAgent, DQNAgent])
def test_a_copy_agrees_and_one_with_another_number_does_not(kind: type[PPOAgent] | type[DQNAgent]) -> None:
    agent = kind(SPACES, small_settings(), seed=1)
    box = SPACES.observation
    told = tuple(map(float, agent.outputs(reference_observation(box))[0]))
    assert len(told) == 3
    header, tensors = unpack_weights(pack_weights("run", 1, 5, 4, agent.export_weights(), told)[1])
    policy = NumpyMLPPolicy(agent.policy_spec())
    policy.load(tensors)
    check_network(policy, header, box)
    changed = dict(tensors) | {"policy.1.bias": tensors["policy.1.bias"] + np.float32(0.001)}
    policy.load(changed)
    with pytest.raises(ClientRegistrationError, match="different results here than on the server"):
        check_network(policy, header, box)


@pytest.mark.parametrize(("delay", "left"), [(1, 1), (None, 3)])
def test_newer_weights_tell_which_samples_are_too_old(
    link: ClientLink, trainer: _Server, delay: int | None, left: int
) -> None:
    uploader = link.enter(CONFIG.model_copy(update={"max_model_delay": delay}), "x", 10_000)
    for model_id in (1, 2, 3):
        uploader.push_chunk(b"x" * 100, 10, model_id)
    trainer.publish(4)
    assert link.wait(lambda view: _model_id(view) == 4, LIMIT_S)
    until(lambda: link.progress.buffered_bytes == 100 * left, "the others wait")
    assert link.progress.dropped == 10 * (3 - left)
