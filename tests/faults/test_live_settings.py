"""Settings that change while a run goes on (R32): no client is refused for it, nor told."""

from pathlib import Path
from typing import Any

import pytest
import redis

from soulsgui.config.schema import all_settings
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.live import LiveChange, read_changes
from tests.faults.report import Report
from tests.sampling.free_trainer import playing_client
from tests.training.nodes import RunningNode, running_node, settings_of

CHANGED: dict[str, dict[str, Any]] = {
    "ppo": {"ppo.learning_rate": 3e-4, "ppo.clip": 0.1, "ppo.entropy_coef": 0.02},
    "dqn": {"dqn.learning_rate": 3e-4, "dqn.epsilon": 0.5, "dqn.replay_ratio": 2.0, "evaluation.episodes": 3},
    "vtrace": {"vtrace.learning_rate": 3e-4, "vtrace.clip": None, "evaluation.every_updates": 7},
}


def test_no_live_setting_is_told_to_clients() -> None:
    live = {key for key, info in all_settings().items() if info.effect.live}
    assert {key for changes in CHANGED.values() for key in changes} < live
    assert {key for key in live if all_settings()[key].to_clients} == set()


@pytest.mark.parametrize("algorithm", CHANGED)
def test_no_chunk_is_refused_for_a_live_setting_that_holds_from_a_known_update_on(
    redis_address: Address,
    redis_client: redis.Redis,
    keys: Keys,
    tmp_path: Path,
    report: Report,
    algorithm: str,
) -> None:
    redis_client.hset(keys.clients, "c", "{}")
    settings = settings_of(algorithm, client__segment_seconds=0.01)
    values, rate = CHANGED[algorithm], f"{algorithm}.learning_rate"
    with playing_client(redis_address) as client, running_node(redis_address, tmp_path, settings) as node:
        node.wait_for_updates(2)
        session, config = client.progress.session, redis_client.get(keys.config)
        change = configured(node, values)
        assert (change.after, change.undoes) == (values, False)
        node.wait_for_updates(change.update + 3)
        undone = configured(node, change.before, undoes=True)
        assert undone.after == change.before
        state = node.wait_for_updates(undone.update + 3)
        assert (state.rejected, client.progress.dropped, client.failure) == ({}, 0, None)
        assert (client.progress.session, redis_client.get(keys.config)) == (session, config)
        assert read_changes(node.run.changes) == [change, undone]
        wrong = node.answer(node.ask("configure", values={rate: 7}))
        assert (wrong.ok, rate in wrong.error) == (False, True)
    rates = [(row.previous, row.update, row.values["learning_rate"]) for row in node.update_rows()]
    told = [(at, after, told) for at, after, told in rates if at >= change.update and after <= undone.update]
    assert {told for *_, told in told} == {values[rate]}
    assert {told for at, after, told in rates if after <= change.update or at >= undone.update} == {
        change.before[rate]
    }
    report.injected("learning rate, clip, exploration and replay ratio changed and undone in a running run")
    report.lost(0, "chunks")


def configured(node: RunningNode, values: dict[str, Any], undoes: bool = False) -> LiveChange:
    answer = node.answer(node.ask("configure", values=values, undoes=undoes))
    assert answer.ok, answer.error
    return LiveChange.model_validate(answer.result)
