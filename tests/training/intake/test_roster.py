"""Who is there, who takes part, and with whom a new trainer goes on."""

import time
from types import SimpleNamespace

import pytest
import redis

from soulsgui.training.intake import reader, roster
from soulsgui.training.intake.sessions import Session
from soulsgui.wire.beats import LATE_S
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, MAX_BYTES, Heartbeat
from tests.training.players import Player
from tests.training.taking import IntakeOfTest
from tests.wire.chunks import chunk, segments

KEYS = Keys("souls:")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The roster's clock: stands still until `now` is set."""
    clock = SimpleNamespace(now=time.monotonic(), monotonic=lambda: clock.now)
    monkeypatch.setattr(roster, "time", clock)
    return clock


def test_only_who_could_have_been_heard_is_silent(redis_client: redis.Redis, clock: SimpleNamespace) -> None:
    beat = Heartbeat(client="c", instance=Instance(), counter=1, session="1-0", phase="sampling")
    redis_client.hset(KEYS.clients, "c", "{}")
    redis_client.set(KEYS.beat("c"), beat.to_json(), px=int(EXPIRY_S * 1000))
    session, seen = Session("c", "1-0", 1, began_at=clock.now), roster.Roster(KEYS)
    seen.read(redis_client)
    clock.now += LATE_S - 1
    seen.read(redis_client)

    clock.now += 60  # the server was away
    seen.start_over()
    seen.read(redis_client)
    assert seen.why_not(session) == ""
    clock.now += 2  # since it is back, it could have been heard
    seen.read(redis_client)
    assert seen.why_not(session) == "silent"


@pytest.mark.parametrize("how", ["paused", "finishing", "stopping", "left", "was removed from the list"])
def test_clients_that_are_away_take_no_part(trainer: IntakeOfTest, member: Player, how: str) -> None:
    looks, read, now = [], trainer.intake.roster.read, time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "time", SimpleNamespace(monotonic=lambda: now))
        trainer.look_around()
        patched.setattr(trainer.intake.roster, "read", lambda _: looks.append(read(_)))
        for _ in range(10):
            trainer.intake.look_around(trainer.connection, often=False)
    assert not looks, "it is not looked around every turn"
    if how == "was removed from the list":
        member.connection.hdel(member.keys.clients, "c")
    else:
        member.beat(**({"leaving": True} if how == "left" else {"phase": how}))
    trainer.turn()
    assert trainer.intake.eligible() == {}
    assert ("c", how) in trainer.losses
    ends = how in ("left", "was removed from the list")
    assert (trainer.intake.sessions.by_client == {}) is ends
    if not ends:
        member.beat()
        trainer.turn()
        assert set(trainer.intake.eligible()) == {"c"}


@pytest.mark.parametrize("beats", [True, False], ids=["fell silent", "died after its hello"])
def test_a_silent_client_begins_no_round_but_is_not_thrown_out_of_one(
    trainer: IntakeOfTest, player: Player, clock: SimpleNamespace, beats: bool
) -> None:
    player.beat()
    player.hello()
    if beats:
        player.beat()  # of this session
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}
    clock.now += LATE_S + 1
    trainer.turn()
    assert trainer.intake.eligible() == {}
    assert trainer.losses == [("c", "began a new session")]


@pytest.mark.parametrize(
    "beat",
    [
        b"x",
        b"x" * (MAX_BYTES + 10),
        b'{"client": "d", "counter": 1, "instance": {}}',
        b'{"counter": NaN}',
        None,
    ],
    ids=range(5),
)
def test_forged_beats_are_no_beats(trainer: IntakeOfTest, player: Player, beat: bytes | None) -> None:
    if beat is None:
        player.connection.lpush(player.keys.beat("c"), "of another type")
    else:
        player.connection.set(player.keys.beat("c"), beat)
    player.hello()
    trainer.turn()
    assert set(trainer.intake.eligible()) == {"c"}
    assert trainer.intake.roster.beats == {}


def _restarted(trainer: IntakeOfTest, keys: Keys) -> tuple[IntakeOfTest, int]:
    following = IntakeOfTest(trainer.connection, keys)
    return following, following.intake.begin(trainer.connection)


@pytest.mark.parametrize("found_later", [False, True])
def test_sessions_go_on_later(trainer: IntakeOfTest, member: Player, keys: Keys, found_later: bool) -> None:
    member.send(chunk())
    trainer.turn()
    if found_later:
        member.connection.hdel(keys.clients, "c")  # the list of clients is not there yet
    following, _ = _restarted(trainer, keys)
    if found_later:
        following.turn()
        assert following.intake.sessions.by_client == {}
        member.connection.hset(keys.clients, "c", "{}")
        following.turn()
    member.send(chunk())
    following.turn()
    assert following.used == {"c": segments().steps}
    assert following.intake.sessions.by_client["c"].id == member.session
    assert following.intake.sessions.refusals().missing == 0


@pytest.mark.parametrize(
    ("model_id", "run", "believed"), [(41, {}, 41), (-1, {}, 0), (2**40, {}, 0), (99, {"run_id": "other"}, 0)]
)
def test_the_newest_believable_model_that_clients_of_this_run_know_is_told(
    trainer: IntakeOfTest, player: Player, keys: Keys, model_id: int, run: dict[str, str], believed: int
) -> None:
    player.beat(model_id=model_id, **run)
    assert _restarted(trainer, keys)[1] == believed
