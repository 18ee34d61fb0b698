import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from prometheus_client import CollectorRegistry, Gauge, Histogram, Summary

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError
from soulsgui.training import PPOTrainingNode
from soulsgui.training import publisher as publisher_module
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.training.spaces import find_spaces
from soulsgui.training.status import Rate, Rows, StalenessCount, Stopwatch, Timing, Waiting
from soulsgui.wire.codec import unpack_weights
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant
from soulsgui.wire.published import published_header
from tests.faults.waiting import LIMIT_S
from tests.training.nodes import small_settings

CONFIG = ServerConfig(run_id="run-1", attempt=2, contract="x", spaces={}, policy={})


def _weights(value: float, size: int = 3) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    return {"w": np.full(size, value, np.float32)}


@pytest.mark.allow_warnings
def test_weights_config_and_grants_appear_together(redis_client: redis.Redis, keys: Keys) -> None:
    publisher = Publisher(keys, CONFIG)
    header = publisher.prepare(TrainingPosition(5, 4, 3, 2), _weights(1, size=10_000))
    assert redis_client.get(keys.weights) is None
    assert published_header(redis_client, keys, "run-1") is None
    listener = redis_client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    listener.subscribe(keys.weights_event)
    listener.get_message(timeout=LIMIT_S)
    publisher.publish(redis_client, {"c": Grant(session="1-0", status="accepted")})
    message = listener.get_message(timeout=LIMIT_S)
    listener.close()
    assert message["data"] == b"5"
    assert ServerConfig.read(redis_client.get(keys.config)) == CONFIG
    assert Grant.read(redis_client.get(keys.grant("c"))) is not None
    found, tensors = unpack_weights(redis_client.get(keys.weights))
    assert found == header == published_header(redis_client, keys, "run-1")
    assert (found.run_id, found.attempt, found.model_id, found.update) == ("run-1", 2, 5, 4)
    np.testing.assert_array_equal(tensors["w"], np.ones(10_000))
    assert published_header(redis_client, keys, "run-2") is None
    redis_client.set(keys.weights, b"garbage")
    assert published_header(redis_client, keys, "run-1") is None


def test_last_weights_are_kept_and_digests_longer(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "_KEPT", 2)
    publisher = Publisher(keys, CONFIG, remembered=4)
    headers = [publisher.prepare(TrainingPosition(n, n * 10, n * 100, 0), _weights(n)) for n in range(10)]
    assert publisher.kept(7) is None
    for n in (8, 9):
        kept = publisher.kept(n)
        assert (kept.position.env_steps, kept.tensors["w"][0]) == (n * 100, n)
    assert publisher.digests == {n: digest_number(headers[n].digest) for n in (6, 7, 8, 9)}
    assert publisher.updates == {6: 60, 7: 70, 8: 80, 9: 90}
    monkeypatch.setattr(publisher_module, "_KEPT_BYTES", 10_000)
    monkeypatch.setattr(publisher_module, "_KEPT", 100)
    publisher = Publisher(keys, CONFIG)
    for model_id in range(10):
        publisher.prepare(TrainingPosition(model_id, 0, 0, 0), _weights(model_id, size=1000))
    assert [n for n in range(10) if publisher.kept(n)] == [8, 9]
    publisher.prepare(TrainingPosition(10, 0, 0, 0), _weights(1, size=100_000))
    assert [n for n in range(11) if publisher.kept(n)] == [10]  # the newest always


def test_attempts_are_counted_in_the_folder_of_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for attempt in (1, 2, 3):
        run = TrainingRun(Settings(), folder)
        run.count_attempt()
        assert run.attempt == attempt
    folder.attempts.write_text("garbage")
    run.count_attempt()
    assert run.attempt == 1


def _row(update: int) -> AttemptRow:
    return AttemptRow(run_id="r", attempt=1, update=update, env_steps=0, episodes=0, model_id=0, time=0.0)


def test_rows_are_sent_in_order_once_and_again_after_errors(redis_client: redis.Redis, keys: Keys) -> None:
    rows = Rows()
    rows.flush(redis_client, keys)
    assert redis_client.xlen(keys.metrics) == 0
    redis_client.set(keys.metrics, "of another type")
    rows.add(_row(0))
    with pytest.raises(redis.ResponseError):
        rows.flush(redis_client, keys)
    redis_client.delete(keys.metrics)
    for update in (1, 2):
        rows.add(_row(update))
    rows.flush(redis_client, keys)
    rows.flush(redis_client, keys)
    entries = redis_client.xrange(keys.metrics)
    assert [fields[b"row"].decode() for _, fields in entries] == [_row(n).to_json() for n in range(3)]
    writer = threading.Thread(target=lambda: [rows.add(_row(n)) for n in range(500)])
    writer.start()  # more may be added while others are sent
    while writer.is_alive():
        rows.flush(redis_client, keys)
    rows.flush(redis_client, keys)
    assert redis_client.xlen(keys.metrics) == 3 + 500


def test_rates_are_taken_over_the_last_seconds_and_waits_summed_up_and_taken_once() -> None:
    rate = Rate()
    assert [rate.update(100, now=0.0), rate.update(150, now=1.0)] == [0, 50]
    for second in range(2, 100):
        last = rate.update(150 + 10 * second, now=float(second))
    assert last == pytest.approx(10)
    assert len(rate._points) < 15
    waiting = Waiting()
    assert waiting.take(5.0) == 0
    for waits, now in ((True, 10.0), (True, 11.0), (False, 12.5), (False, 20.0)):
        waiting.set(waits, now)
    assert waiting.take(30.0) == 2.5
    waiting.set(True, 31.0)
    assert [waiting.take(32.0), waiting.take(34.0)] == [1.0, 2.0], "it goes on"
    timing = Timing()
    measured = Stopwatch(timing)
    for _ in range(2):
        timing.last_s = -1.0
        with measured:
            pass
        assert timing.last_s >= 0


@pytest.mark.parametrize("kind", [Gauge, Histogram, Summary])
def test_timers_of_prometheus_are_given_the_seconds(kind: Any, tmp_path: Path) -> None:
    timer = kind("update_seconds", "Time of an update.", registry=(registry := CollectorRegistry()))
    node = PPOTrainingNode(small_settings(), RunFolder(tmp_path), Address("127.0.0.1", 1, ""))
    with node.monitor_timing(timer):
        time.sleep(0.01)
    name = "update_seconds" if kind is Gauge else "update_seconds_sum"
    assert registry.get_sample_value(name) >= 0.01


@pytest.mark.parametrize("text", ["{", "[]", '{"observation": {}}', "[" * 100_000, "\udcff"])
def test_damaged_spaces_are_named(tmp_path: Path, text: str) -> None:
    run = RunFolder(tmp_path)
    assert find_spaces(Settings(), run).observation.shape == (4,)
    run.spaces.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(EnvironmentCheckError, match=r"spaces\.json"):
        find_spaces(Settings(), run)


def counted(*lags: int) -> Staleness:
    count = StalenessCount()
    count.accept(np.array(lags, np.int64), np.ones(len(lags), np.int32))
    return count.told


def test_accepted_and_late_transitions_are_counted_apart_by_their_lag_and_add_up() -> None:
    count = StalenessCount()
    for _ in range(2):
        count.accept(np.array([0, 1, 3, 4, 5, 33], np.int64), np.array([3, 1, 1, 1, 10, 7], np.int32))
        count.refuse(np.array([512, 513, 600], np.int64), np.array([1, 2, 2], np.int32))
    told = count.told
    assert told.bounds == list(STALENESS_BOUNDS)
    assert dict(zip(told.bounds, told.accepted, strict=False)) == dict.fromkeys(STALENESS_BOUNDS, 0) | {
        0: 6, 1: 2, 4: 4, 6: 20, 48: 14
    }  # fmt: skip
    assert told.late == [0] * (len(STALENESS_BOUNDS) - 1) + [2, 8]
    assert Staleness.read(told.to_json()) == told


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Staleness(), ""),
        (counted(0, 0, 0), ""),
        (counted(0, 0, 0, 7), "half of the samples 0 updates old, 95 % at most 8"),
        (counted(9, 10, 20, 30), "half of the samples at most 12 updates old, 95 % at most 32"),
        (counted(9, 700), "half of the samples at most 12 updates old, 95 % more than 512"),
    ],
)
def test_the_ages_are_told_in_words(told: Staleness, words: str) -> None:
    assert told.words() == words
