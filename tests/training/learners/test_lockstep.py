"""The same seed gives the same curve, to the bit: real nodes and real clients, in threads of this process."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer
from soulsgui.config.schema import Settings
from soulsgui.training.intake.sessions import Session
from soulsgui.training.learners.limits import STEPS_PER_ENV, Lockstep
from soulsgui.wire.beats import LOST_S
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.session import RoundShare
from tests.faults.waiting import until
from tests.sampling.free_trainer import playing_client
from tests.servers import delete_prefix, with_fresh_prefix
from tests.training.nodes import SMALL, SMALL_DQN, SMALL_SAC, RunNode, join, next_round, running_node

PLAYED = {"env.num_envs": 2, "seed": 3}
IN_STEP = {**PLAYED, "determinism": "lockstep", "clients.local": 1, "stop.env_steps": 256}
# Everything that may depend on the time at once: priorities, windows of several steps, noise.
DQN = {**SMALL_DQN, "dqn.agent": "rainbow", **IN_STEP}
TD3 = {**SMALL_SAC, "sac.agent": "td3", **IN_STEP}
ENDLESS = combine([Layer("test", DQN | {"stop.env_steps": 10_000})])
PPO = {**SMALL, **PLAYED, "stop.env_steps": 400}


def test_a_share_goes_to_the_first_client_fits_into_a_chunk_and_ends_with_its_client() -> None:
    lockstep = Lockstep(longest=8)
    sessions = {"b": Session("b", "1-0", 1), "a": Session("a", "2-0", 3)}
    assert not lockstep.begin({}, 5)
    assert lockstep.begin(sessions, 5)
    assert sessions["a"].round == RoundShare(round_id=5, steps=24)
    assert sessions["b"].round is None
    assert not lockstep.takes("b", 1)
    assert not lockstep.takes("a", 25)
    assert lockstep.takes("a", 20)
    lockstep.drop("b")
    assert lockstep.waits
    assert lockstep.takes("a", 4)
    assert not lockstep.waits
    lockstep = Lockstep(longest=1000)
    lockstep.begin(sessions, 5)
    assert lockstep.left == 3 * STEPS_PER_ENV
    lockstep.drop("a")
    assert not lockstep.waits
    # That of a silent one is given up when another could play.
    lockstep.begin({"a": Session("a", "1-0", 2), "b": Session("b", "2-0", 2)}, 6)
    looks = [
        (["a", "b"], 0.0, False),
        ([], 1000.0, False),  # nobody else: it may come back
        (["b"], 2000.0, False),
        (["b"], 2000.0 + LOST_S - 1, False),
        (["a", "b"], 2000.0 + LOST_S, False),  # it was heard: nothing is lost
        (["b"], 3000.0, False),
        (["b"], 3000.0 + LOST_S, True),
    ]
    assert [lockstep.lost(there, now) for there, now, _ in looks] == [lost for *_, lost in looks]


@pytest.mark.allow_warnings
def test_who_is_silent_or_sends_garbage_loses_its_share(
    run_node: RunNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("soulsgui.training.learners.limits.LOST_S", 0.0)
    with run_node(ENDLESS) as node:
        silent, other = join(node, "a"), join(node, "b")
        until(silent.share, "a share")
        intake = node.node.attempt.intake
        session, eligible = intake.sessions.by_client["a"], intake.eligible
        monkeypatch.setattr(
            intake, "eligible", lambda: {name: one for name, one in eligible().items() if name != "a"}
        )
        next_round(other)
        assert session.round is None
        until(lambda: not session.plays, "the trainer has looked around")
        for _ in range(30):  # each of two segments
            silent.deliver(1)
        node.wait_for(lambda state: state.rejected == {"not_admitted": 30}, "what was on its way is counted")
        assert session.status == "accepted", "it is no fault of its client"
        caplog.clear()
        share = next_round(other)
        other.send(b"garbage")
        assert next_round(other, share.round_id).round_id == share.round_id + 1
    assert any("can't be repeated exactly" in line for line in caplog.messages)


def _curve(server: Address, root: Path, settings: Settings, clients: list[str]) -> list[Any]:
    """Train to the goal and return everything of the curve that is no time."""
    address = with_fresh_prefix(server)
    try:
        with running_node(address, root, settings) as node, ExitStack() as playing:
            for name in clients:
                node.connection.hset(node.keys.clients, name, "{}")
                playing.enter_context(playing_client(address, name=name))
            node.wait_for(lambda state: state.stop_reached, "the goal")
            until(lambda: not node.node.attempt.rows._waiting, "the last row")
            updates = node.update_rows()
            weights = node.node.agent.export_weights()
    finally:
        delete_prefix(address)
    rows = [row.model_dump(exclude={"run_id", "time", "values"}) for row in updates]
    values = [
        {name: value for name, value in row.values.items() if not name.endswith("_s")} for row in updates
    ]
    return [rows, values, {name: array.tobytes() for name, array in weights.items()}]


@pytest.mark.parametrize(
    ("values", "clients"),
    [(DQN, ["a"]), (TD3, ["a"]), (PPO, ["a"]), (PPO | {"ppo.n_clients": 2}, ["a", "b"])],
)
def test_the_same_seed_gives_the_same_curve_to_the_bit(
    redis_server: Address, tmp_path: Path, values: dict[str, Any], clients: list[str]
) -> None:
    with pytest.raises(ConfigError, match="determinism"):
        combine([Layer("test", DQN | {"clients.local": 2})])
    settings = combine([Layer("test", values)])
    first, again = (_curve(redis_server, tmp_path / n, settings, clients) for n in ("first", "again"))
    assert len(first[0]) > 5
    assert first == again
