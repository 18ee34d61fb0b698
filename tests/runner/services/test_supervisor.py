import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from soulsgui.errors import DIVERGED, ServiceError
from soulsgui.runner.services.logs import FLOOD_BYTES, KEEP, LogFollower, log_parts
from soulsgui.runner.services.processes import Identities
from soulsgui.runner.services.service import Health
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.system import kill_tree, new_session_kwargs
from soulsgui.wire.control import ServiceStatus
from soulsgui.wire.keys import TRAINER
from tests.faults.waiting import LIMIT_S
from tests.runner.children import (
    APART,
    FAILING,
    OBEDIENT,
    PARENT,
    POLITE,
    QUICK,
    STUBBORN,
    Events,
    alive,
    command,
    grandchild_of,
    kill,
    spec,
    text_of,
    until,
)

pytestmark = pytest.mark.processes

# A runner that starts one service as ours do, and then crashes: nothing is cleaned up. A forgetful one is
# killed right after the start, before the process is recorded.
CRASHING_RUNNER = """
import asyncio, os, sys
from pathlib import Path
from soulsgui.runner.services.processes import Identities
from soulsgui.runner.services.supervisor import Supervisor
from tests.runner.children import spec

if sys.argv[3] == 'forgetful':
    Identities.write = lambda *_: os._exit(9)

async def main(folder, script):
    supervisor = Supervisor(folder, lambda: None, lambda *event: None)
    await supervisor.start(spec(folder, script))
    assert await supervisor.wait_ready("worker", 240)
    os._exit(9)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


SCRIBE = """
import time
print('ready', flush=True)
for number in range(60000):
    print('line', number, flush=True)
    time.sleep(0.01)
"""


class Watched(Supervisor):
    """Supervises one service, `worker`, most of the time."""

    def __init__(self, folder: Path, on_change: Callable[[], None] = lambda: None) -> None:
        self.folder, self.log = folder, folder / "logs" / "worker.log"
        self.events, self.identities = Events(), Identities(folder)
        super().__init__(folder, on_change, self.events, QUICK)

    async def run(self, script: str, **fields: object) -> int:
        """Start a script as `worker` and return its pid once it is ready."""
        await self.start(spec(self.folder, script, **fields))  # type: ignore[arg-type]
        assert await self.wait_ready("worker", LIMIT_S)
        assert self.pid is not None
        return self.pid

    @property
    def pid(self) -> int | None:
        return self.pid_of("worker")

    @property
    def first(self) -> ServiceStatus:
        return self.statuses()[0]


@pytest_asyncio.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Watched]:
    made = Watched(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[int]:
    crash_a_runner(tmp_path, SCRIBE)
    yield Identities(tmp_path).read("worker").pid
    record = Identities(tmp_path).read("worker")
    if record is not None and record.lives():
        kill(record.pid)


def crash_a_runner(folder: Path, script: str, kind: str = "usual") -> None:
    runner = subprocess.run(
        [sys.executable, "-c", CRASHING_RUNNER, str(folder), script, kind],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert runner.returncode == 9


async def test_a_service_is_started_once_restarted_ended_as_asked_and_forgotten(supervisor: Watched) -> None:
    script = f"import os, sys; print(os.environ['SPICE'], repr(sys.stdin.read()), flush=True)\n{POLITE}"
    worker = spec(supervisor.folder, script, env={"SPICE": "pepper"})
    await asyncio.gather(*(supervisor.start(worker) for _ in range(5)))
    assert await supervisor.wait_ready("worker", LIMIT_S)
    await supervisor.start(worker)
    assert text_of(supervisor.log).count("pepper") == 1
    first = supervisor.pid
    assert supervisor.running("worker")
    assert supervisor.first.state == "running"
    await supervisor.restart("worker")
    assert await supervisor.wait_ready("worker", LIMIT_S)
    await until(lambda: text_of(supervisor.log).count("ready\n") == 2)  # only then it can say goodbye
    second = supervisor.pid
    assert second not in (None, first)
    await supervisor.stop("worker")
    assert not alive(second or 0)
    status = supervisor.first
    assert (status.state, status.outcome, status.pid) == ("stopped", "ended as asked", None)
    assert text_of(supervisor.log).endswith("pepper ''\nready\ngoodbye\n")
    assert supervisor.identities.all() == []
    assert supervisor.events.told == [], "what was wished is no event"
    third = await supervisor.run(script, env={"SPICE": "pepper"})
    await supervisor.remove("worker", "nobody")
    assert not alive(third)
    assert supervisor.statuses() == []
    with pytest.raises(ServiceError, match="no service “worker”"):
        supervisor.spec_of("worker")


async def test_a_start_during_a_stop_waits_for_its_end(supervisor: Watched) -> None:
    first = await supervisor.run(STUBBORN)
    stopping = asyncio.create_task(supervisor.stop("worker", grace_s=0.2))
    await until(lambda: supervisor.first.state == "stopping")
    second = await supervisor.run(OBEDIENT)
    await stopping
    assert not alive(first)
    assert alive(second)


async def test_services_are_stopped_together(supervisor: Watched) -> None:
    names = [f"client-{number}" for number in range(1, 5)]
    for name in names:
        await supervisor.start(spec(supervisor.folder, STUBBORN, name))
    for name in names:
        await supervisor.wait_ready(name, LIMIT_S)
    stopping = asyncio.create_task(supervisor.stop(*names, "nobody", grace_s=LIMIT_S))
    await until(lambda: {status.state for status in supervisor.statuses()} == {"stopping"})
    supervisor.kill_all()
    await stopping
    assert {status.state for status in supervisor.statuses()} == {"stopped"}


async def test_a_program_that_does_not_exist_is_told_at_once(supervisor: Watched) -> None:
    worker = spec(supervisor.folder, argv=(str(supervisor.folder / "no-such-program"),))
    with pytest.raises(ServiceError, match="could not be started") as caught:
        await supervisor.start(worker)
    assert "no-such-program" in caught.value.remedy
    assert supervisor.first.state == "failed"


async def test_waiting_ends_for_what_is_slow_or_stopped(supervisor: Watched) -> None:
    await supervisor.start(spec(supervisor.folder, "import time; time.sleep(600)"))
    assert await supervisor.wait_ready("worker", 0.1) is False
    waiting = asyncio.create_task(supervisor.wait_ready("worker", LIMIT_S))
    await supervisor.stop("worker")
    assert await waiting is None


async def test_what_fails_at_every_start_is_given_up_with_cause_and_last_lines(supervisor: Watched) -> None:
    mended = supervisor.folder / "mended"
    script = f"import pathlib\nif not pathlib.Path({str(mended)!r}).exists():\n    {FAILING}\n{OBEDIENT}"
    await supervisor.start(spec(supervisor.folder, script))
    with pytest.raises(ServiceError) as caught:
        await supervisor.wait_ready("worker", LIMIT_S)
    assert "exit 1 after" in caught.value.message
    assert "no such device: /dev/gpu7" in caught.value.message
    status = supervisor.first
    assert (status.state, status.failures, status.max_failures, status.restarts) == ("failed", 5, 5, 4)
    assert status.last_lines == ["no such device: /dev/gpu7"]
    assert text_of(supervisor.log).count("start of worker") == 5
    assert len(supervisor.events.of("warning")) == 4
    (level, what, cause, remedy, service) = supervisor.events.told[-1]
    assert (level, service) == ("error", "worker")
    assert what == "worker was given up after 5 failures within 5 min 0 s"
    assert "no such device: /dev/gpu7" in cause
    assert "soulsgui logs worker" in remedy
    mended.touch()
    await supervisor.restart("worker")  # by hand
    assert await supervisor.wait_ready("worker", LIMIT_S)
    assert supervisor.first.failures == 0


async def test_a_trainer_that_diverged_has_not_failed(supervisor: Watched) -> None:
    diverges = f"import sys; print('The training has diverged.', file=sys.stderr); sys.exit({DIVERGED})"
    await supervisor.start(replace(spec(supervisor.folder, diverges), kind=TRAINER))
    await until(lambda: supervisor.first.restarts >= supervisor.first.max_failures + 1)
    assert (supervisor.first.failures, supervisor.events.of("error")) == (0, [])
    level, what, cause, _, _ = supervisor.events.told[-1]
    assert (level, what) == ("warning", "worker goes back to its last checkpoint")
    assert "The training has diverged." in cause
    await supervisor.stop("worker")


async def test_one_that_everything_needs_is_tried_again_after_it_was_given_up(supervisor: Watched) -> None:
    mended = supervisor.folder / "mended"
    script = f"import pathlib\nif not pathlib.Path({str(mended)!r}).exists():\n    {FAILING}\n{OBEDIENT}"
    await supervisor.start(spec(supervisor.folder, script, retry_s=0.2))
    with pytest.raises(ServiceError):
        await supervisor.wait_ready("worker", LIMIT_S)
    await until(lambda: supervisor.first.restarts >= 7)
    assert supervisor.first.state in ("failed", "starting")
    told = supervisor.events.of("error")
    assert len(told) == 1, "that it is given up is told once"
    assert supervisor.events.told[-1][3].endswith("fix the cause, and it is tried again every 0.2 s.")
    mended.touch()
    await until(lambda: supervisor.first.state == "running")
    assert supervisor.events.told[-1][1] == "worker runs again"
    await supervisor.stop("worker")
    assert supervisor.first.state == "stopped"


async def test_one_that_was_given_up_is_not_tried_again_when_it_was_asked_to_stop(
    supervisor: Watched,
) -> None:
    await supervisor.start(spec(supervisor.folder, FAILING, retry_s=0.1))
    with pytest.raises(ServiceError):
        await supervisor.wait_ready("worker", LIMIT_S)
    await supervisor.stop("worker")
    starts = text_of(supervisor.log).count("start of worker")
    await asyncio.sleep(0.3)
    assert (supervisor.first.state, text_of(supervisor.log).count("start of worker")) == ("stopped", starts)


INSTALL = f"Install it: {sys.executable} -m pip install cv2_of_nobody"


@pytest.mark.parametrize(
    ("script", "words", "remedy", "where"),
    [
        ("import cv2_of_nobody.x", "Python finds no module cv2_of_nobody", INSTALL, "on this computer"),
        (FAILING.replace("exit(1)", "exit(2)"), "no such device: /dev/gpu7", "", "with its settings"),
    ],
    ids=["missing module", "refused settings"],
)
async def test_what_no_other_try_would_change_fails_at_once_with_its_words(
    supervisor: Watched, script: str, words: str, remedy: str, where: str
) -> None:
    await supervisor.start(spec(supervisor.folder, script, refusal_code=2))
    with pytest.raises(ServiceError) as caught:
        await supervisor.wait_ready("worker", LIMIT_S)
    assert caught.value.message.endswith(words)
    assert caught.value.remedy == remedy
    status = supervisor.first
    assert (status.state, status.failures, status.restarts) == ("failed", 1, 0)
    assert words in status.outcome
    assert remedy in status.outcome
    ((level, what, _, advice, _),) = [one for one in supervisor.events.told if one[0] != "info"]
    assert (level, what, advice) == ("error", f"worker can't run {where}", remedy)


async def test_one_that_was_killed_is_started_again_and_its_children_end_with_it(supervisor: Watched) -> None:
    first = await supervisor.run(PARENT)
    used = supervisor.first
    assert used.cpu_percent is None
    assert used.uptime_s is not None
    assert (used.memory_bytes or 0) > psutil.Process(first).memory_info().rss, "children count, too"
    grandchild = grandchild_of(supervisor.log)
    kill(first)
    await until(lambda: supervisor.running("worker") and supervisor.pid != first)
    await until(lambda: not alive(grandchild))
    status = supervisor.first
    assert status.restarts == 1
    assert status.outcome.startswith("killed by signal 9 (SIGKILL) after")
    assert [event[:2] for event in supervisor.events.told] == [
        ("warning", "worker ended unexpectedly"),
        ("info", "worker runs again"),
    ]
    outcome = supervisor.outcome_of("worker")
    assert outcome.signal == 9


async def test_a_farewell_is_no_failure(supervisor: Watched) -> None:
    def health() -> Health:
        ended = "goodbye" in text_of(supervisor.log)
        return Health(ready="ready" in text_of(supervisor.log), farewell="all played" if ended else "")

    script = "import time; print('ready', flush=True); time.sleep(0.1); print('goodbye', flush=True)"
    await supervisor.start(spec(supervisor.folder, script, health=health))
    await until(lambda: supervisor.first.state == "stopped")
    assert supervisor.events.told == [("info", "worker has ended", "all played", "", "worker")]
    with pytest.raises(ServiceError, match="all played"):
        await supervisor.wait_ready("worker", 1)


@pytest.mark.allow_warnings
async def test_supervision_goes_on_when_a_check_breaks_or_nobody_can_be_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def broken() -> Health:
        raise KeyError("beat")

    def tell_and_break() -> None:
        seen.extend(one.state for one in supervisor.statuses() if one.name == "worker")
        raise RuntimeError("no window")

    supervisor = Watched(tmp_path, tell_and_break)
    await supervisor.start(spec(tmp_path, OBEDIENT, "broken", health=broken))
    await supervisor.run(OBEDIENT)
    status = next(one for one in supervisor.statuses() if one.name == "broken")
    assert (status.state, status.detail) == ("starting", "its check failed: 'beat'")
    await supervisor.close()
    assert list(dict.fromkeys(seen)) == ["starting", "running", "stopping", "stopped"]


async def test_closing_ends_stubborn_children_and_grandchildren(supervisor: Watched) -> None:
    pid = await supervisor.run(STUBBORN, grace_s=0.3)
    grandchild = grandchild_of(supervisor.log)
    await supervisor.close()
    assert not alive(pid)
    await until(lambda: not alive(grandchild))
    assert supervisor.identities.all() == []
    assert "did not stop within" in supervisor.events.told[-1][2]


async def test_closing_stops_higher_tiers_first_and_is_for_good(supervisor: Watched) -> None:
    order = supervisor.folder / "order"
    script = POLITE.replace("print('goodbye', flush=True)", f"open({str(order)!r}, 'a').write(sys.argv[1])")
    for name, tier in (("c", 2), ("a", 0), ("b", 1)):
        await supervisor.start(spec(supervisor.folder, name=name, tier=tier, argv=(*command(script), name)))
        assert await supervisor.wait_ready(name, LIMIT_S)
    await supervisor.close()
    assert order.read_text() == "cba"
    with pytest.raises(ServiceError, match="everything is being ended"):
        await supervisor.start(spec(supervisor.folder, OBEDIENT))


async def test_a_service_outlives_its_runner_and_is_adopted_once(supervisor: Watched, orphan: int) -> None:
    worker = spec(supervisor.folder, SCRIBE)
    follower = LogFollower({"worker": worker.log_path})
    assert [record.name for record in supervisor.orphans()] == ["worker"]
    assert await supervisor.adopt(worker)
    assert not await supervisor.adopt(worker)
    assert supervisor.orphans() == []
    assert await supervisor.wait_ready("worker", LIMIT_S)
    assert supervisor.pid == orphan
    await supervisor.start(worker)
    assert supervisor.pid == orphan, "what runs is not started again"
    lines: list[object] = []
    await until(lambda: bool(lines.extend(follower.poll()) or len(lines) > 2))
    await supervisor.stop("worker")
    assert not alive(orphan)
    assert supervisor.first.outcome == "ended as asked"
    assert supervisor.identities.all() == []


async def test_an_adopted_service_that_is_killed_is_started_again(supervisor: Watched, orphan: int) -> None:
    assert await supervisor.adopt(spec(supervisor.folder, SCRIBE))
    await supervisor.wait_ready("worker", LIMIT_S)
    kill(orphan)
    await until(lambda: supervisor.running("worker") and supervisor.pid != orphan)
    assert supervisor.events.told[0][2] == "exit code unknown"


@pytest.mark.parametrize(
    ("script", "binding"), [(OBEDIENT, ""), (SCRIBE, "127.0.0.1:2")], ids=["command line", "server"]
)
async def test_one_with_another_command_line_or_server_is_not_adopted_but_ended_before_the_start(
    supervisor: Watched, orphan: int, script: str, binding: str
) -> None:
    assert not await supervisor.adopt(spec(supervisor.folder, script, binding=binding))
    pid = await supervisor.run(script, binding=binding)
    assert pid != orphan
    assert not alive(orphan)


async def test_a_stubborn_orphan_family_ends(supervisor: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soulsgui.runner.services.supervisor._STRAY_GRACE_S", 0.2)
    crash_a_runner(supervisor.folder, STUBBORN)
    orphan, grandchild = supervisor.identities.read("worker").pid, grandchild_of(supervisor.log)
    await supervisor.stop_orphans()
    assert not alive(orphan)
    assert supervisor.identities.all() == []
    await until(lambda: not alive(grandchild))


async def test_a_stranger_by_forged_record_is_never_signalled(supervisor: Watched) -> None:
    stranger = subprocess.Popen(command("import time; time.sleep(600)"), **new_session_kwargs())
    try:
        worker = spec(supervisor.folder, OBEDIENT)
        supervisor.identities.write("worker", worker.argv, stranger.pid)
        path = supervisor.folder / "services" / "worker.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"start_time": 1.0}))
        assert supervisor.orphans() == []
        assert not await supervisor.adopt(worker)
        await supervisor.stop_orphans()
        await supervisor.run(OBEDIENT)
        await supervisor.remove("worker")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_stop_during_a_restart_wins_and_both_end(supervisor: Watched) -> None:
    await supervisor.run(POLITE.replace("sys.exit(0)", "(time.sleep(0.3), sys.exit(0))"))
    restarting = asyncio.create_task(supervisor.restart("worker"))
    await asyncio.sleep(0)
    async with asyncio.timeout(LIMIT_S):
        await supervisor.stop("worker")
        with pytest.raises(ServiceError, match="asked to stop meanwhile"):
            await restarting
    assert supervisor.pid is None


async def test_all_are_killed_without_waiting(supervisor: Watched) -> None:
    pids = [await supervisor.run(STUBBORN), grandchild_of(supervisor.log)]
    supervisor.kill_all()
    await until(lambda: not any(map(alive, pids)))


@pytest.mark.allow_warnings
async def test_a_service_that_its_runner_could_not_record_is_found_and_ended(supervisor: Watched) -> None:
    crash_a_runner(supervisor.folder, APART, "forgetful")
    await until(lambda: "ready" in text_of(supervisor.log))
    grandchild = grandchild_of(supervisor.log)
    stranger = subprocess.Popen(command(APART), stdout=subprocess.DEVNULL, **new_session_kwargs())
    try:
        assert supervisor.orphans() == []
        supervisor.recover()
        (found,) = supervisor.orphans()
        assert (found.name, found.argv) == ("worker", spec(supervisor.folder, APART).argv)
        assert found.pid not in (grandchild, stranger.pid)
        await supervisor.stop_orphans()
        assert not alive(found.pid)
        assert stranger.poll() is None, "the same command line, but none of ours"
        assert supervisor.identities.all() == []
    finally:
        kill_tree(stranger.pid)
        stranger.wait()
        kill_tree(grandchild)


@pytest.mark.allow_warnings
async def test_what_its_runner_could_not_record_is_adopted_or_forgotten(supervisor: Watched) -> None:
    crash_a_runner(supervisor.folder, POLITE, "forgetful")
    supervisor.identities.announce("other", command(POLITE))
    await until(lambda: "ready" in text_of(supervisor.log))
    supervisor.recover()
    (found,) = supervisor.orphans()
    assert [path.name for path in (supervisor.folder / "services").iterdir()] == ["worker.json"]
    assert await supervisor.adopt(spec(supervisor.folder, POLITE))
    assert await supervisor.wait_ready("worker", LIMIT_S)
    assert supervisor.pid == found.pid


FLOOD = """
import os, time
line = b'x' * 199 + b'\\n'
for _ in range(600):
    os.write(1, line * 1000)
while True:
    os.write(1, b'over\\n')
    time.sleep(0.1)
"""


async def test_endless_printing_does_not_fill_the_disk(supervisor: Watched) -> None:
    follower = LogFollower({"worker": supervisor.log})
    await supervisor.start(spec(supervisor.folder, FLOOD, health=lambda: Health(ready=True)))
    lines = []
    async with asyncio.timeout(LIMIT_S):
        while not any(line.text == "over" for line in lines):
            lines += await asyncio.to_thread(follower.poll)
            await asyncio.sleep(0.05)

    def kept() -> int:
        return sum(part.path.stat().st_size for part in log_parts(supervisor.log) if part.path.exists())

    await until(lambda: kept() < (KEEP + 2) * FLOOD_BYTES)
    assert [line.number for line in lines] == sorted({line.number for line in lines})
