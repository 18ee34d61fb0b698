"""A sink as a service of its run: what was recorded and what happened, over its being killed, to the end."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.runner.run import services
from soulsgui.wire.control import Empty, RunStartParams
from soulsgui.wire.keys import EntryId
from tests.runner.running import FAKE_PROGRAM, new_runner, opened, until
from tests.telemetry.helpers import arrivals, episode, recorder_of


@pytest.mark.processes
async def test_a_sink_takes_everything_over_a_kill_until_the_run_ends(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = services.own_command
    fake = [sys.executable, str(FAKE_PROGRAM)]
    monkeypatch.setattr(services, "own_command", lambda role: own(role) if role == "sink" else [*fake, role])
    async with opened(new_runner(folders, {"telemetry.tensorboard": True})) as runner:
        place = await runner.command("run.start", RunStartParams())
        assert place is not None
        run = RunFolder(Path(place.run_dir))
        with recorder_of(run.store) as recorder:
            recorder.record([], arrivals(episode(1.0)), EntryId(1, 1), 10.0)
            await until(lambda: (run.sinks / "tensorboard.json").exists())
            pid = runner.supervisor.pid_of("tensorboard")
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

            def is_back() -> bool:
                (sink,) = (one for one in runner.supervisor.statuses() if one.name == "tensorboard")
                return sink.state == "running" and sink.pid != pid

            await until(is_back)
            recorder.record([], arrivals(episode(2.0), first=2), EntryId(1, 1), 20.0)
            await runner.command("run.stop", Empty())
        told = [event.what for event in runner.events.since(0)]
        assert any(what.startswith("tensorboard ended unexpectedly") for what in told)
    read = EventAccumulator(str(run.tensorboard)).Reload()
    assert [(one.step, one.value) for one in read.Scalars("episode/return")] == [(10, 1.0), (20, 2.0)]
    texts = [one.tensor_proto.string_val[0].decode() for one in read.Tensors("events")]
    assert any("was started" in text for text in texts)
