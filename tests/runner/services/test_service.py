import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from soulsgui.runner.services.outcome import RestartLimits
from soulsgui.runner.services.processes import Identities
from soulsgui.runner.services.service import Health, Service, ServiceContext, ServiceSpec
from soulsgui.wire.control import ServiceStatus
from tests.runner.children import FAILING, OBEDIENT, POLITE, STUBBORN, Events, kill, spec, text_of, until_now

LIMITS = RestartLimits(jitter=0.0)


@dataclass
class Bench:
    """One service, its surroundings, and a clock."""

    folder: Path
    health: Health = field(default_factory=lambda: Health(ready=True, tick=0))
    now: float = 1000.0
    events: Events = field(default_factory=Events)

    def __post_init__(self) -> None:
        identities = Identities(self.folder)
        self.around = ServiceContext(identities, LIMITS, self.events, random.Random(1))
        self.service = Service(self.spec_of(), self.around)

    def spec_of(self, script: str = OBEDIENT, **fields: object) -> ServiceSpec:
        fields = {"grace_s": ServiceSpec.grace_s} | fields
        return spec(self.folder, script, health=lambda: self.health, **fields)

    def start(self, script: str = OBEDIENT, **fields: object) -> None:
        self.service = Service(self.spec_of(script, **fields), self.around)
        self.service.start(self.now)

    def run(self, script: str = OBEDIENT, **fields: object) -> None:
        """Start it, and see it running and deaf or not to signals, as its script says."""
        self.start(script, **fields)
        until_now(lambda: "ready" in text_of(self.service.spec.log_path))
        if self.health.tick is not None:
            self.say(tick=1)
        self.step(0.1)
        assert self.service.state == "running"

    def step(self, seconds: float = 0.1) -> None:
        self.now += seconds
        self.service.step(self.now)

    def after(self, seconds: float = 0.1) -> str:
        self.step(seconds)
        return self.service.state

    @property
    def status(self) -> ServiceStatus:
        return self.service.status(self.now, {})

    def until(self, state: str) -> None:
        """Let only a moment of the service's clock pass, and as much of ours as it takes."""

        def reached() -> bool:
            self.step(0.001)
            return self.service.state == state

        until_now(reached)

    def say(self, **changes: object) -> None:
        self.health = replace(self.health, **changes)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    if bench.service.pid is not None:
        bench.service.ask_to_stop(bench.now, 0.0)
        bench.until("stopped")


def test_what_is_known_of_the_process_before_makes_nobody_ready(bench: Bench) -> None:
    bench.run()
    kill(bench.service.pid)
    bench.until("backoff")
    bench.step(1)
    assert bench.health.ready
    assert bench.service.state == "starting"
    bench.say(tick=2)
    assert bench.after() == "running"


@pytest.mark.parametrize(("phase", "limit_s"), [("", 60), ("loading", 300)])
def test_one_that_never_gets_ready_is_killed_and_says_why(bench: Bench, phase: str, limit_s: float) -> None:
    bench.say(ready=False, phase=phase, detail="waiting for the game window")
    bench.start()
    assert bench.after(limit_s - 1) == "starting"
    bench.step(2)
    bench.until("backoff")
    cause = bench.events.of("warning")[0][2]
    assert "killed by signal 9 (SIGKILL)" in cause
    assert f"not ready within {limit_s} s (waiting for the game window)" in cause


def test_one_that_was_not_ready_in_time_gets_longer_each_time_for_some_minutes(bench: Bench) -> None:
    bench.say(ready=False)
    bench.start()
    for limit_s in (60, 120, 240, 480, 600):
        assert bench.after(limit_s - 1) == "starting"
        bench.step(2)
        bench.until("backoff")
        assert f"not ready within {limit_s} s" in bench.status.outcome
        bench.now += 31  # no pause before a restart is longer
        bench.until("starting")


def test_a_moving_tick_is_a_sign_of_life_and_long_phases_have_limits_of_their_own(bench: Bench) -> None:
    bench.run()
    limits_s = {"": 30, "saving": 300, "loading": 300, "compiling": 600, "updating": 30}
    for tick, (phase, limit_s) in enumerate(limits_s.items(), 2):
        bench.say(tick=tick, phase=phase)
        bench.step()
        bench.step(limit_s / 6 - 1)
        assert bench.status.detail == "", phase
        bench.step(2)
        assert bench.status.detail == f"no sign of life for {limit_s / 6 + 1:.0f} s", phase
        assert bench.after(limit_s * 5 / 6 - 2) == "running", phase
    bench.step(2)
    bench.until("backoff")
    assert "no sign of life for 30 s while updating" in bench.status.outcome
    assert bench.after(1) == "starting"
    assert bench.status.restarts == 1


def test_without_a_tick_being_ready_is_the_sign_of_life(bench: Bench) -> None:
    bench.say(tick=None)
    bench.run()
    assert bench.after(1000) == "running"
    bench.say(ready=False)
    assert bench.after(29) == "running"
    bench.step(1002)
    bench.until("backoff")


def test_neither_silence_nor_the_wait_for_readiness_counts_while_the_server_is_down(bench: Bench) -> None:
    bench.say(ready=False)
    bench.start()
    bench.around.server_up = False
    bench.step(1000)
    bench.around.server_up = True
    assert bench.after(59) == "starting"
    bench.say(ready=True, tick=1)
    bench.step()
    bench.around.server_up = False
    bench.step(1000)
    bench.around.server_up = True
    assert bench.after(29) == "running", "the silence counts from the moment the server is back"
    bench.step(2)
    bench.until("backoff")


def test_failures_do_not_count_while_the_server_is_down(bench: Bench) -> None:
    bench.run()
    bench.around.server_up = False
    for _ in range(2 * LIMITS.max_failures):
        kill(bench.service.pid)
        bench.until("backoff")
        assert bench.after(LIMITS.longest_delay_s) == "starting"
    assert bench.status.failures == 0
    bench.around.server_up = True
    kill(bench.service.pid)
    bench.until("backoff")
    assert bench.status.failures == 1


def test_one_that_finds_the_disk_full_is_tried_again_until_there_is_space(bench: Bench) -> None:
    script = "import sys; sys.exit('OSError: [Errno 28] No space left on device')"
    bench.start(script, repair=lambda lines: f"repaired: {lines[-1]}")
    for _ in range(2 * LIMITS.max_failures):
        bench.until("backoff")
        bench.step(LIMITS.longest_delay_s)
    assert bench.status.failures == 0
    assert bench.service.active
    _, _, cause, remedy, _ = bench.events.of("warning")[0]
    assert cause.endswith("the disk is full")
    assert remedy.startswith("Free some space. It restarts by itself")
    assert bench.events.told[-1][1].startswith("repaired: OSError"), "before the next start"


def test_a_silent_server_is_killed_also_while_it_is_down(bench: Bench) -> None:
    bench.run(kind="redis")
    bench.around.server_up = False
    bench.step(31)
    bench.until("backoff")


def test_a_stubborn_one_is_killed_after_its_grace_and_sleep_of_the_runner_is_none(bench: Bench) -> None:
    bench.run(STUBBORN)
    bench.now += 1000
    bench.service.unobserved(1000)
    assert bench.after(29) == "running"
    bench.service.ask_to_stop(bench.now, None)
    assert bench.after(3.9) == "stopping"
    bench.step(0.2)
    bench.until("stopped")
    level, what, cause, _, service = bench.events.told[-1]
    assert (level, what, service) == ("warning", "worker did not end properly", "worker")
    assert "did not stop within 4 s" in cause


@pytest.mark.parametrize(
    ("saves_s", "then", "more_s"),
    [(50, "stopping", 3.9), (50, "saving", 9.0)],
    ids=["after the save it has its grace", "saving has an end too"],
)
def test_one_that_is_saving_may_finish(bench: Bench, saves_s: float, then: str, more_s: float) -> None:
    bench.run(STUBBORN)
    bench.service.ask_to_stop(bench.now, None)
    bench.say(phase="saving")
    bench.step(saves_s)
    bench.say(phase=then)
    assert bench.after(more_s) == "stopping"
    bench.step(2)
    bench.until("stopped")


def test_a_second_request_can_shorten_the_grace_and_an_end_at_once_is_no_news(bench: Bench) -> None:
    bench.run(STUBBORN)
    bench.service.ask_to_stop(bench.now, 100.0)
    assert bench.after(5) == "stopping"
    bench.service.ask_to_stop(bench.now, 1.0)
    bench.step(0.1)
    bench.until("stopped")
    told = list(bench.events.told)
    bench.service.spec.log_path.unlink()
    bench.say(tick=0)
    bench.run(STUBBORN)
    bench.service.ask_to_stop(bench.now, 0.0)
    bench.until("stopped")
    assert bench.events.told == told


def test_a_wished_end_with_an_error_is_told(bench: Bench) -> None:
    bench.run(POLITE.replace("sys.exit(0)", "sys.exit(7)"))
    bench.service.ask_to_stop(bench.now, None)
    bench.until("stopped")
    assert bench.events.told[-1][:2] == ("warning", "worker did not end properly")
    assert "exit 7" in bench.events.told[-1][2]


def test_the_pause_before_the_next_try_counts_down_and_a_stop_in_it_is_immediate(bench: Bench) -> None:
    bench.start(FAILING)
    bench.until("backoff")
    status = bench.status
    assert (status.failures, status.max_failures) == (1, 5)
    assert status.restart_in_s == pytest.approx(0.5, abs=0.01)
    assert status.last_lines == ["no such device: /dev/gpu7"]
    assert bench.service.status(bench.now + 0.3, {}).restart_in_s == pytest.approx(0.2, abs=0.01)
    another = FAILING.replace("no such device", "still no device")
    bench.service.spec = replace(bench.service.spec, argv=bench.spec_of(another).argv)
    bench.step(1)
    bench.until("backoff")
    assert bench.service.last_lines == ["still no device: /dev/gpu7"], "of the last process"
    bench.service.ask_to_stop(bench.now, None)
    for _ in range(2):
        assert bench.service.state == "stopped"
        bench.step(60)


def test_a_minute_of_health_forgives_failures(bench: Bench) -> None:
    bench.run()
    for tick in range(2, 6):
        kill(bench.service.pid)
        bench.until("backoff")
        bench.step(20)
        bench.say(tick=tick)
        assert bench.after() == "running"
    for tick in range(6, 10):
        bench.say(tick=tick)
        bench.step(20)
    kill(bench.service.pid)
    bench.until("backoff")
    assert bench.status.failures == 1
    assert bench.status.restarts == 4


@pytest.mark.parametrize(
    ("farewell", "restart", "state"),
    [
        ("before", True, "stopped"),
        ("a moment later", True, "stopped"),
        ("never", True, "backoff"),
        ("never", False, "stopped"),
    ],
)
def test_a_clean_end_means_a_restart_only_without_a_farewell_and_where_there_is_to_be_one(
    bench: Bench, farewell: str, restart: bool, state: str
) -> None:
    bench.run(POLITE, restart=restart)
    words = "played its 100 episodes"
    if farewell == "before":
        bench.say(farewell=words)
    process = bench.service._process
    psutil.Process(process.pid).terminate()  # by somebody who is not the runner
    until_now(process.ended)
    bench.step(0.1)
    if farewell == "a moment later":
        assert bench.after(1.0) == "running", "an end that may be in order is not judged at once"
        bench.say(farewell=words)
    assert bench.after(0.5 if farewell != "never" else 2.0) == state
    if farewell != "never":
        assert bench.service.outcome.in_order
        assert bench.events.told[-1][:3] == ("info", "worker has ended", words)


def test_one_that_is_not_to_be_restarted_fails(bench: Bench) -> None:
    bench.start(FAILING, restart=False)
    bench.until("failed")
    level, what, cause, remedy, _ = bench.events.told[-1]
    assert (level, what) == ("error", "worker failed")
    assert cause.startswith("exit 1 after 0.")
    assert cause.endswith(": no such device: /dev/gpu7")
    assert "soulsgui logs worker" in remedy


def test_what_was_said_on_the_way_out_is_no_cause(bench: Bench) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    old = "2026-11-27 10:00:00.000 ERROR soulsgui.x: The game raised"
    hangs = f"{now}.000 ERROR soulsgui.x: The environment hangs"
    for said, cause in (([old, hangs, f"{now}.001 INFO x: bye", "Do this."], hangs), ([old, "No."], "No.")):
        bench.start("".join(f"print({line!r}); " for line in said) + "exit(1)", restart=False)
        bench.until("failed")
        assert bench.events.told[-1][2].endswith(cause)


def test_what_the_server_had_to_leave_out_is_told_once_ready(bench: Bench) -> None:
    seen: list[Sequence[str]] = []

    def remark(lines: Sequence[str]) -> str:
        seen.append(lines)
        return "two entries are missing"

    bench.service.spec.log_path.parent.mkdir()
    bench.service.spec.log_path.write_text("of an earlier start\n")
    bench.run(remark=remark)
    assert seen == [["ready"]]
    assert bench.events.told == [("warning", "two entries are missing", "", "", "worker")]


def test_an_unknown_phase_is_not_shown_and_uptime_is_that_of_a_clock_nobody_sets(bench: Bench) -> None:
    bench.run()
    bench.say(tick=2, phase="dreaming", detail="of sheep")
    bench.step(20)
    status = bench.status
    assert (status.phase, status.detail) == ("", "of sheep")
    assert status.uptime_s == pytest.approx(20.1, abs=0.1)


def test_a_process_that_can_not_be_started_again_counts_as_a_failure(bench: Bench) -> None:
    bench.run()
    bench.service.spec = replace(bench.service.spec, argv=("/nonexistent/program",))
    kill(bench.service.pid)
    bench.until("backoff")
    assert bench.after(1) == "backoff"
    assert "could not be started" in bench.status.outcome
    assert bench.status.failures == 2
