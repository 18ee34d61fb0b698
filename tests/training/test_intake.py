"""From streams to segments: sessions, refusals, quarantine, and what a restarted trainer goes on with."""

import logging
import time
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.training import intake as intake_module
from soulsgui.training.intake import Intake
from soulsgui.training.publisher import Publisher, Standing
from soulsgui.training.sessions import Session
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import Segments
from soulsgui.wire.messages.heartbeat import MAX_BYTES
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant
from tests.training.players import Player
from tests.wire.chunks import CONTRACT, RUN, chunk, segments

SPACES = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2))
CONFIG = ServerConfig(run_id=RUN, attempt=1, contract=CONTRACT, spaces=SPACES.to_json(), policy={})


class _Trainer:
    """An intake with what surrounds it; every chunk that passes is taken over."""

    def __init__(self, connection: redis.Redis, keys: Keys) -> None:
        self.connection = connection
        self.publisher = Publisher(keys, CONFIG)
        self.publisher.prepare(Standing(1, 0, 0, 0), {"w": np.zeros(1, np.float32)})
        self.publisher.publish(connection, {})
        self.used: list[tuple[str, Segments]] = []
        self.dropped_out: list[tuple[str, str]] = []
        self.intake = Intake(
            keys,
            CONFIG,
            SPACES,
            self.publisher,
            10**6,
            self._use,
            lambda *what: self.dropped_out.append(what),
        )

    def _use(self, session: Session, made: Segments) -> tuple[int, dict[str, int]]:
        self.used.append((session.client, made))
        return made.count, {}

    def _drop(self, client: str, reason: str) -> None:
        self.dropped_out.append((client, reason))

    def turn(self) -> None:
        self.intake._next_look = 0.0
        self.intake.look_around(self.connection, often=True)
        for _ in range(3):
            self.intake.take(self.connection, 0)

    def rejected(self) -> dict[str, int]:
        return self.intake.sessions.refusals().total


@pytest.fixture
def trainer(redis_client: redis.Redis, keys: Keys) -> _Trainer:
    return _Trainer(redis_client, keys)


@pytest.fixture
def player(redis_client: redis.Redis, keys: Keys, trainer: _Trainer) -> Player:
    return Player(redis_client, keys)


def _joined(trainer: _Trainer, player: Player) -> Player:
    player.hello()
    player.beat()
    trainer.turn()
    return player


def test_a_hello_is_answered_with_credits(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    grant = player.grant()
    assert grant is not None
    assert (grant.status, grant.credit_bytes, grant.round) == ("accepted", 10**6, None)
    assert set(trainer.intake.eligible()) == {"c"}


def test_chunks_of_a_session_are_taken_over(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    player.send(chunk())
    player.send(chunk())
    trainer.turn()
    assert [client for client, _ in trainer.used] == ["c", "c"]
    assert trainer.rejected() == {}
    assert player.connection.xlen(player.keys.chunks("c")) == 0


def test_a_hello_is_not_acknowledged_before_it_is_answered(
    trainer: _Trainer, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    player.hello()
    player.beat()
    tell = trainer.publisher.tell

    def fail(*_: Any) -> None:
        raise redis.ConnectionError("lost")

    monkeypatch.setattr(trainer.publisher, "tell", fail)
    with pytest.raises(redis.ConnectionError):
        trainer.turn()
    assert player.grant() is None
    assert player.connection.xlen(player.keys.chunks("c")) == 1
    monkeypatch.setattr(trainer.publisher, "tell", tell)
    session = trainer.intake.sessions.by_client["c"]
    trainer.intake.start_over()
    trainer.turn()
    assert player.grant() is not None
    assert trainer.intake.sessions.by_client["c"] is session  # read twice, begun once


def test_a_refused_grant_comes_again_with_its_hello(
    trainer: _Trainer, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    _joined(trainer, player)
    player.hello()
    with monkeypatch.context() as patched:

        def refuse(*_: Any) -> None:
            raise redis.OutOfMemoryError("full")

        patched.setattr(trainer.publisher, "tell", refuse)
        with pytest.raises(redis.OutOfMemoryError):
            trainer.turn()
    trainer.intake.unsettle()
    trainer.turn()
    assert player.grant() is not None


@pytest.mark.allow_warnings
def test_another_contract_is_refused_and_its_chunks_are_not_used(trainer: _Trainer, player: Player) -> None:
    player.hello(contract="other")
    trainer.turn()
    grant = player.grant()
    assert grant is not None
    assert grant.status == "refused"
    player.send(chunk())
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ([], {"not_admitted": 1})
    assert trainer.intake.eligible() == {}


@pytest.mark.allow_warnings
def test_a_hello_that_can_not_be_read_is_refused(trainer: _Trainer, player: Player) -> None:
    for hello in (b"\xff", b"{}", b"x" * (MAX_BYTES + 1)):
        entry = player.connection.xadd(player.keys.chunks("c"), {"hello": hello})
        player.session = entry.decode()
        trainer.turn()
        grant = player.grant()
        assert grant is not None
        assert grant.status == "refused"


def test_a_newer_session_fences_the_older_one(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    older = player.session
    player.hello()
    trainer.turn()
    assert trainer.dropped_out[-1] == ("c", "began a new session")
    assert player.session > older
    assert trainer.intake.sessions.by_client["c"].id == player.session


def test_chunks_of_a_session_before_the_present_one_are_not_used(
    trainer: _Trainer, player: Player, redis_client: redis.Redis, keys: Keys
) -> None:
    # A trainer that goes on with the newer session finds what an earlier one had not acknowledged.
    _joined(trainer, player)
    player.send(chunk())
    trainer.intake.ingest.read(redis_client, 0)  # delivered, and then the trainer is killed
    player.hello()
    player.beat()
    grant = Grant(session=player.session, status="accepted")
    redis_client.set(keys.grant("c"), grant.to_json())
    following = _Trainer(redis_client, keys)
    following.intake.begin(redis_client)
    following.turn()
    assert following.used == []
    assert following.rejected() == {"not_admitted": 1}
    assert following.intake.sessions.by_client["c"].id == player.session


def test_garbage_is_counted_by_reason_and_harms_nobody(
    trainer: _Trainer, player: Player, redis_client: redis.Redis, keys: Keys
) -> None:
    other = _joined(trainer, Player(redis_client, keys, "d"))
    _joined(trainer, player)
    player.send(b"\xc1garbage")
    player.connection.xadd(player.keys.chunks("c"), {"x": "y"})
    player.send(chunk(run="other"))
    player.send(chunk(contract="other"))
    player.send(chunk(segments(reward=np.zeros(2, np.float32))))
    other.send(chunk())
    trainer.turn()
    assert trainer.rejected() == {"unreadable": 2, "other_run": 1, "contract": 1, "shape": 1}
    assert [client for client, _ in trainer.used] == ["d"]


@pytest.mark.allow_warnings
def test_a_client_that_keeps_failing_is_quarantined(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    for _ in range(60):
        player.send(b"garbage")
    trainer.turn()
    grant = player.grant()
    assert grant is not None
    assert grant.status == "quarantined"
    assert "unreadable" in grant.reason
    assert trainer.dropped_out[-1] == ("c", "quarantined")
    player.send(chunk())
    trainer.turn()
    assert trainer.used == []
    assert trainer.rejected() == {"unreadable": 50, "not_admitted": 11}
    assert trainer.intake.eligible() == {}


def test_repeats_are_dropped_once_and_gaps_are_counted(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    for number in (0, 1, 1, 5, 0):
        player.send(chunk(), number)
    trainer.turn()
    assert len(trainer.used) == 3
    refusals = trainer.intake.sessions.refusals()
    assert (refusals.total, refusals.missing) == ({"repeated": 2}, 3)


@pytest.mark.parametrize("number", [b"-1", b"1e3", b"x", b"9" * 30, b"", b"\xd9\xa3"])
def test_forged_numbers_count_as_none(trainer: _Trainer, player: Player, number: bytes) -> None:
    _joined(trainer, player)
    player.connection.xadd(player.keys.chunks("c"), {"c": chunk(), "n": number})
    trainer.turn()
    assert len(trainer.used) == 1
    assert trainer.intake.sessions.refusals().missing == 0


def test_entries_their_client_took_back_are_nothing(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    player.send(chunk())
    trainer.intake.ingest.read(trainer.connection, 1)
    player.connection.xtrim(player.keys.chunks("c"), maxlen=0, approximate=False)
    trainer.intake.unsettle()
    trainer.turn()
    assert (trainer.used, trainer.rejected()) == ([], {})


@pytest.mark.allow_warnings
def test_an_unusable_stream_is_counted_and_its_client_dropped(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    player.connection.set(player.keys.chunks("c"), "mine")
    trainer.turn()
    assert trainer.rejected() == {"wrong_type": 1}
    assert ("c", "its stream can't be read") in trainer.dropped_out


def test_credits_are_renewed_before_they_end(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    first = player.grant()
    big = chunk(segments((8000, 8000)))
    for _ in range(2):
        player.send(big)
    trainer.turn()
    second = player.grant()
    assert first is not None
    assert second is not None
    assert second.credit_bytes == first.credit_bytes + 2 * len(big)


# --- who takes part ---------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["paused", "finishing", "stopping"])
def test_clients_that_are_away_take_no_part(trainer: _Trainer, player: Player, phase: str) -> None:
    _joined(trainer, player)
    player.beat(phase=phase)
    trainer.turn()
    assert trainer.intake.eligible() == {}
    assert ("c", phase) in trainer.dropped_out
    player.beat()
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}


def test_a_goodbye_ends_the_session(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    player.beat(leaving=True)
    trainer.turn()
    assert trainer.intake.sessions.by_client == {}
    assert ("c", "left") in trainer.dropped_out


def test_a_client_taken_off_the_list_is_gone(trainer: _Trainer, player: Player) -> None:
    _joined(trainer, player)
    player.connection.hdel(player.keys.clients, "c")
    trainer.turn()
    assert trainer.intake.sessions.by_client == {}
    assert ("c", "was taken off the list") in trainer.dropped_out


def _hours_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    moved = time.monotonic() + seconds
    monkeypatch.setattr("soulsgui.training.roster.time.monotonic", lambda: moved)


def test_a_silent_client_begins_no_round_but_is_not_thrown_out_of_one(
    trainer: _Trainer, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    _joined(trainer, player)
    with monkeypatch.context() as patched:
        _hours_pass(patched, 6)
        assert trainer.intake.eligible() == {}
    assert trainer.dropped_out == [("c", "began a new session")]


def test_a_client_that_died_right_after_its_hello_is_not_waited_for(
    trainer: _Trainer, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    player.beat()
    player.hello()  # and not one beat of this session
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}
    with monkeypatch.context() as patched:
        _hours_pass(patched, 6)
        assert trainer.intake.eligible() == {}


@pytest.mark.parametrize(
    "beat",
    [b"x", b"x" * (MAX_BYTES + 10), b'{"client": "d", "counter": 1, "instance": {}}', b'{"counter": NaN}'],
)
def test_forged_beats_are_no_beats(trainer: _Trainer, player: Player, beat: bytes) -> None:
    player.connection.set(player.keys.beat("c"), beat)
    player.hello()
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}
    assert trainer.intake._roster.beats == {}


def test_a_beat_of_another_type_is_no_beat(trainer: _Trainer, player: Player) -> None:
    player.connection.lpush(player.keys.beat("c"), "x")
    player.hello()
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}


# --- after a restart of the trainer -----------------------------------------------------------------


def _restarted(trainer: _Trainer, keys: Keys) -> tuple[_Trainer, int]:
    following = _Trainer(trainer.connection, keys)
    return following, following.intake.begin(trainer.connection)


def test_sessions_go_on_after_a_restart(trainer: _Trainer, player: Player, keys: Keys) -> None:
    _joined(trainer, player)
    player.send(chunk())
    trainer.turn()
    following, _ = _restarted(trainer, keys)
    player.send(chunk())
    following.turn()
    assert len(following.used) == 1
    assert following.intake.sessions.by_client["c"].id == player.session
    assert following.intake.sessions.refusals().missing == 0


def test_a_session_found_only_later_goes_on_too(
    trainer: _Trainer, player: Player, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _joined(trainer, player)
    player.connection.hdel(keys.clients, "c")  # the roster is not there yet
    following, _ = _restarted(trainer, keys)
    following.turn()
    assert following.intake.sessions.by_client == {}
    player.connection.hset(keys.clients, "c", "{}")
    following.turn()
    assert following.intake.sessions.by_client["c"].id == player.session
    player.send(chunk())
    following.turn()
    assert len(following.used) == 1


@pytest.mark.parametrize(
    ("model_id", "believed"), [(41, 41), (-1, 0), (2**40, 0)], ids=["newest", "none", "unbelievable"]
)
def test_the_newest_model_clients_know_is_told(
    trainer: _Trainer, player: Player, keys: Keys, model_id: int, believed: int
) -> None:
    player.beat(model_id=model_id)
    assert _restarted(trainer, keys)[1] == max(believed, 0)


def test_models_of_another_run_do_not_count(trainer: _Trainer, player: Player, keys: Keys) -> None:
    player.beat(model_id=99, run_id="other")
    assert _restarted(trainer, keys)[1] == 0


def test_looks_around_are_not_made_at_every_turn(
    trainer: _Trainer, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def read(_: redis.Redis) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(trainer.intake._roster, "read", read)
    monkeypatch.setattr(intake_module, "_ROSTER_EVERY_S", 1000)
    for _ in range(10):
        trainer.intake.look_around(trainer.connection, often=False)
    assert looks == 1
