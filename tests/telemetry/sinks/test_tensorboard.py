"""Event files as TensorBoard's own reader finds them, written by a process that is killed on its way."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.sinks.records import Record
from soulsgui.telemetry.sinks.tensorboard import TensorBoardSink
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.node import NodeState
from tests.faults.waiting import LIMIT_S, until
from tests.telemetry.helpers import Stage, arrivals, attempt_row, episode, recorder_of, update_row


@contextmanager
def _sink(run: RunFolder, stage: Stage) -> "Iterator[subprocess.Popen[bytes]]":
    file = run.root / "redis.json"
    stage.address.write(file)
    words = ["-m", "soulsgui", "sink", "tensorboard", "--run", str(run.root), "--server-file", str(file)]
    process = subprocess.Popen([sys.executable, *words, "--data-dir", str(run.root / "nobody")])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _read(run: RunFolder) -> EventAccumulator:
    return EventAccumulator(str(run.tensorboard)).Reload()


def _steps_and_values(read: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in read.Scalars(tag)]


@pytest.mark.processes
def test_a_run_is_written_once_over_a_kill_and_its_end(run: RunFolder, stage: Stage) -> None:
    with recorder_of(run.store) as recorder:
        recorder.record([attempt_row(1), update_row(1, env_steps=64, loss=0.5)], [], EntryId(1, 1), 0.0)
        recorder.record([], arrivals(episode(1.0), episode(2.0)), EntryId(1, 1), time.time())
        with _sink(run, stage):
            until(lambda: (run.sinks / "tensorboard.json").exists(), "the first rows", every_s=0.05)
        recorder.record([], arrivals(episode(3.0), first=3), EntryId(1, 1), time.time())
        with _sink(run, stage) as process:
            key = stage.keys.node("tensorboard")

            def at_work() -> bool:
                state = NodeState.read(stage.redis.get(key))
                return state is not None and state.instance.pid == process.pid and state.tick > 0

            until(at_work, "its state")
            recorder.record([], arrivals(episode(4.0), first=4), EntryId(1, 1), time.time())
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
    assert NodeState.read(stage.redis.get(key)).farewell == "ended as asked"
    read = _read(run)
    assert _steps_and_values(read, "episode/return") == [(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]
    assert _steps_and_values(read, "episode/mean_return")[-1] == (40, 3.5)
    assert _steps_and_values(read, "update/loss") == [(64, 0.5)]


def test_what_happens_is_text_that_is_shown_as_it_is(run: RunFolder) -> None:
    from soulsgui.config.schema import Settings

    sink = TensorBoardSink(run, Settings())
    hostile = "<img src=x onerror=alert(1)>\n# [link](file:///etc/passwd)"
    sink.write([Record("event", 5.0, text=hostile)])
    sink.close()
    read = _read(run)
    (event,) = read.Tensors("events")
    (text,) = event.tensor_proto.string_val
    assert text.decode() == "    <img src=x onerror=alert(1)>\n    # [link](file:///etc/passwd)"
    assert read.SummaryMetadata("events").plugin_data.plugin_name == "text"
