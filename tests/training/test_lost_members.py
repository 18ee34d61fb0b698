"""Rounds that lose a member, by every policy, on a real server with a real node; and rounds in balance."""

import time
from typing import Any

import numpy as np
import pytest
import redis

from soulsgui.experience.segments import Segments
from soulsgui.training.intake import reader as intake_module
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import (
    STEPS,
    RunningNode,
    RunNode,
    heard_batches,
    join,
    next_round,
    play,
    small_settings,
)
from tests.training.players import Player

QUOTA = 2 * STEPS

pytestmark = pytest.mark.allow_warnings


def _settings(policy: str, **changed: Any) -> Any:
    return small_settings(ppo__lost_member=policy, ppo__n_clients=2, **changed)


def _two(node: RunningNode) -> tuple[Player, Player]:
    first, second = join(node, "a"), join(node, "b")
    next_round(second, -1, first)
    return first, second


def test_a_round_and_the_next_one_wait_for_a_paused_member_until_it_is_back(run_node: RunNode) -> None:
    with run_node(_settings("wait")) as node:
        staying, going = _two(node)
        going.beat(phase="paused")
        node.wait_for(lambda now: now.detail == "waiting for b (paused)", "said at once")
        staying.deliver(STEPS)
        state = node.wait_for(lambda now: now.phase == "waiting", "nothing else goes on")
        assert state.trouble == "The round is waiting for b (paused)"
        node.node.learner.round.elapsed_s = 1000.0  # its time is up
        node.quiet()
        assert node.node.agent.updates == 0
        going.beat()
        going.deliver(STEPS)
        state = node.wait_for_updates(1)
        assert state.env_steps == 2 * QUOTA
        assert node.wait_for(lambda now: not now.trouble, "no trouble is left").detail == ""
        last = next_round(going, 1).round_id
        next_round(staying, 1)
        going.deliver(STEPS)
        going.beat(phase="paused")
        until(lambda: node.node.attempt.intake.why_absent("b") == "paused", "it is away")
        staying.deliver(STEPS)  # the share of the other is there: this round is complete without it
        node.wait_for_updates(2)
        state = node.wait_for(lambda now: now.detail == "waiting for b (paused)", "the next one waits")
        assert state.phase == "waiting"
        assert state.trouble == "The next round is waiting for b (paused)"
        going.beat()
        play(staying, going, last=last)
        assert node.wait_for_updates(3).trouble == ""


def test_a_member_that_begins_anew_delivers_the_rest_to_a_waiting_round(run_node: RunNode) -> None:
    with run_node(_settings("wait")) as node:
        staying, crashing = _two(node)
        staying.deliver(STEPS)
        crashing.deliver(STEPS // 4)
        members = node.node.learner.round.members
        node.wait_for(lambda _: members["b"].delivered == QUOTA // 4, "a quarter is there")
        crashing.hello()
        share = next_round(crashing)
        assert (share.round_id, share.steps) == (node.node.learner.round.round_id, QUOTA - QUOTA // 4)
        crashing.deliver(STEPS - STEPS // 4)
        state = node.wait_for_updates(1)
        assert (state.env_steps, state.rejected) == (2 * QUOTA, {})


@pytest.mark.parametrize("how", ["leaves", "is stopped", "is forgotten", "delivers at last"])
def test_rounds_wait_for_late_members(run_node: RunNode, caplog: pytest.LogCaptureFixture, how: str) -> None:
    with run_node(_settings("wait", ppo__round_timeout=0.2)) as node:
        staying, gone = _two(node)
        staying.deliver(STEPS)
        words = "waiting for b (did not deliver within 0.2 s)"
        node.wait_for(lambda now: (now.phase, now.detail) == ("waiting", words), "it waits")
        if how == "delivers at last":
            elapsed = node.node.learner.round.elapsed_s
            node.wait_for(lambda _: node.node.learner.round.elapsed_s > elapsed + 0.3, "it goes on waiting")
            assert len([line for line in caplog.messages if "waits for b" in line]) == 1, "said once"
            gone.deliver(STEPS)
            assert node.wait_for_updates(1).rejected == {}
            return
        if how == "is forgotten":
            node.connection.hdel(node.keys.clients, "b")
        else:
            gone.beat(leaving=how == "leaves", phase="stopping")
        assert node.wait_for_updates(1).env_steps == QUOTA
        play(staying, last=1)
        node.wait_for_updates(2)


def test_the_others_make_what_a_lost_member_owes(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(_settings("redistribute")) as node:
        staying, going = _two(node)
        staying.deliver(STEPS)
        going.deliver(STEPS // 4)
        node.wait_for(lambda _: node.node.learner.round.members["b"].delivered, "a part is there")
        listener = node.connection.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        listener.subscribe(node.keys.wake_up("a"))
        listener.get_message(timeout=LIMIT_S)
        tell, failures = node.node.attempt.publisher.tell_all, [redis.ConnectionError("lost")] * 2

        def fail_twice(*args: Any) -> None:
            if failures:
                raise failures.pop()
            tell(*args)

        monkeypatch.setattr(node.node.attempt.publisher, "tell_all", fail_twice)
        going.beat(leaving=True)
        until(lambda: next_round(staying).steps == 2 * QUOTA - QUOTA // 4, "it is granted more")
        assert not failures
        assert listener.get_message(timeout=LIMIT_S), "it is woken up for it"
        listener.close()
        assert node.node.agent.updates == 0
        staying.deliver(STEPS - STEPS // 4)
        state = node.wait_for_updates(1)
        assert (state.env_steps, state.rejected) == (2 * QUOTA, {})


@pytest.mark.parametrize("when", ["in a round", "between two rounds"])
def test_the_run_is_stopped_with_the_reason(run_node: RunNode, when: str) -> None:
    with run_node(_settings("stop")) as node:
        staying, going = _two(node)
        if when == "between two rounds":
            going.deliver(STEPS)
        going.beat(phase="paused")
        until(lambda: node.node.attempt.intake.why_absent("b") == "paused", "it is away")
        if when == "between two rounds":
            staying.deliver(STEPS)
        state = node.wait_for(lambda now: now.stop_reason, "it wants to be stopped")
        lost = "The round" if when == "in a round" else "The next round"
        assert state.stop_reason == f"{lost} lost b (paused) (ppo.lost_member: stop)"
        node.wait_for(lambda now: now.phase == "waiting" and now.detail == state.stop_reason, "it rests")
        staying.deliver(STEPS)
        assert node.answer(node.ask("save", kind="current")).ok, "it obeys as before"
        assert node.node.agent.updates == state.updates


def test_nobody_is_late_while_all_is_held_up(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "_ROSTER_EVERY_S", 0.05)
    with run_node(_settings("shrink", ppo__round_timeout=100.0)) as node:
        first, second = _two(node)
        learner = node.node.learner
        passed = learner.round.elapsed_s
        with monkeypatch.context() as held_up:
            held_up.setattr(learner, "read", lambda _: node.node._stop.wait(0.01))
            clock = time.monotonic
            # This process was stopped for 100 s in the middle of a turn; the clock never goes back.
            monkeypatch.setattr("soulsgui.training.trainer.time.monotonic", lambda: clock() + 100.0)
            node.wait_for(lambda _: learner.round.elapsed_s > passed + 0.1, "turns go on")
            assert learner.round.elapsed_s < 100
        assert node.answer(node.ask("hold", seconds=60)).ok
        node.wait_for(lambda now: "memory" in now.detail, "said on its card")
        before = learner.round.elapsed_s
        node.quiet(10)
        assert learner.round.elapsed_s == before
        session = node.node.attempt.intake.sessions.by_client["a"]
        session.entries = session.granted_entries  # all of its credit is used up
        granted = session.granted_entries
        node.quiet(10)
        assert session.granted_entries == granted
        assert node.answer(node.ask("hold", seconds=0)).ok
        until(lambda: first.granted().credit_entries > granted, "it gets more unasked")
        first.deliver(STEPS)
        second.deliver(STEPS)
        assert node.wait_for_updates(1).env_steps == 2 * QUOTA


def test_who_is_cut_off_is_lost_with_its_stream(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(_settings("shrink")) as node:
        good, bad = _two(node)
        assert node.answer(node.ask("cut", client="b", reason="it held 9 MB")).ok
        until(lambda: bad.granted().status == "quarantined", "it is told")
        grant = bad.granted()
        assert (grant.reason, grant.round) == ("it held 9 MB", None)
        good.deliver(STEPS)
        assert node.wait_for_updates(1).env_steps == QUOTA
        monkeypatch.setattr(node.node.learner, "read", lambda _: node.node._stop.wait(0.01))
        tick = node.node.training.status.tick
        node.wait_for(lambda _: node.node.training.status.tick > tick + 1, "nobody reads any more")
        for _ in range(3):
            bad.send(b"x" * 1000)
        answer = node.answer(node.ask("cut", client="b", reason="it goes on"))
        assert answer.result == {"entries": 3}
        assert node.connection.xlen(node.keys.chunks("b")) == 0
        node.wait_for(lambda now: now.rejected.get("cut_off") == 3, "they are counted")
        monkeypatch.undo()
        assert not node.answer(node.ask("cut")).ok


def test_members_sample_unequally_for_the_agent(run_node: RunNode, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(_settings("shrink", ppo__balance=True)) as node:
        players = _two(node)
        node.node.learner.speeds.note("a", 300.0, 2)
        node.node.learner.speeds.note("b", 100.0, 2)
        node.node.learner.speeds.note = lambda *_: None  # what is measured here is the test's own speed
        last = play(*players)
        node.wait_for_updates(1)
        batches = heard_batches(node, monkeypatch)
        sent = []
        for player, steps in zip(players, (3 * STEPS, STEPS), strict=True):
            share = next_round(player, last)
            assert share.steps == steps, "the slow one samples less"
            rewards = np.random.default_rng(steps).normal(size=steps).astype(np.float32)
            sent.append(player.play(steps // 2, reward=rewards))
            player.send(player.packed(sent[-1]))
        state = node.wait_for_updates(2)
        assert (state.env_steps, state.rejected) == (4 * QUOTA, {})
        assert 0 < (state.learner_waits or 0) <= 1
        assert state.clients_wait is not None
        until(lambda: len(node.update_rows()) == 2, "the rows")
        for row in node.update_rows():
            assert row.values["learner_wait_s"] > 0
            assert row.values["ingest_wait_s"] > 0
    ((batch, _),) = batches
    assert batch.length.tolist() == [24, 24, 8, 8]
    expected = Segments.concat(sent)
    for column in ("obs", "action", "reward", "log_prob", "flags", "terminated_steps", "step_rows"):
        np.testing.assert_array_equal(getattr(batch, column), getattr(expected, column), err_msg=column)
    assert np.flatnonzero(batch.ends).tolist() == [23, 47, 55, 63], "no advantage reaches over an end"
