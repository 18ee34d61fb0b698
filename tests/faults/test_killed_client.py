"""A client killed in mid-episode (R6): the others don't notice, and at most its open segment is lost."""

import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from soulsgui.wire.connection import Address
from tests.faults.counted import steps_made
from tests.faults.fleet import fleet
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, dqn_settings, running_node

SEGMENT, ENVS = 16, 2

pytestmark = pytest.mark.allow_warnings


def _received(node: RunningNode, name: str) -> int:
    session = node.node.attempt.intake.sessions.by_client.get(name)
    return session.steps if session is not None else 0


def _play_and_kill(
    address: Address, folder: Path, clients: int, seconds: float, kill: bool
) -> tuple[float, int]:
    """Let clients play, kill the first perhaps, and return the rate of the others and what was lost."""
    folder.mkdir()
    counts = folder / "counts"
    counts.mkdir()
    settings = dqn_settings(
        env__id="tests.faults.counted:ToysCounted-v0",
        env__kwargs={"folder": str(counts)},
        env__num_envs=ENVS,
        client__segment_length=SEGMENT,
        client__segment_seconds=60,
        dqn__buffer_size=100_000,
        dqn__replay_ratio=0.1,
    )
    with (
        running_node(address, folder / "run", settings) as node,
        fleet(address, folder / "fleet", clients) as them,
    ):
        others = [name for name in them if name != "c1"]
        node.wait_for(lambda _: True, "it listens")
        until(lambda: all(_received(node, name) > 4 * SEGMENT * ENVS for name in them), "all play")
        lost = _kill_first(node, them["c1"], others, counts) if kill else 0
        before, began = {name: _received(node, name) for name in others}, time.monotonic()
        threading.Event().wait(seconds)
        made = sum(_received(node, name) - before[name] for name in others)
        rate = made / (time.monotonic() - began)
        until(lambda: all(_received(node, name) > before[name] for name in others), "every other plays on")
        assert node.node.state().rejected == {}
    return rate, lost


def _kill_first(node: RunningNode, first: "subprocess.Popen[bytes]", others: list[str], counts: Path) -> int:
    """Kill the first client in the middle of a segment; return how many steps of it never came."""
    while True:
        # Held first: whether it is in the middle of one is known when all that it sent has come.
        first.send_signal(signal.SIGSTOP)
        _until_all_is_read(node, others)
        lost = steps_made(counts, first.pid) - _received(node, "c1")
        if lost >= ENVS:
            break
        first.send_signal(signal.SIGCONT)
        until(
            lambda: steps_made(counts, first.pid) - _received(node, "c1") >= SEGMENT * ENVS // 2,
            "half of one",
        )
    first.kill()
    first.wait()
    _until_all_is_read(node, others)
    assert steps_made(counts, first.pid) - _received(node, "c1") == lost
    # The steps of all its environments since the last cut, and those of one step that was not recorded yet.
    assert lost <= SEGMENT * ENVS + ENVS
    return lost


def _until_all_is_read(node: RunningNode, others: list[str]) -> None:
    """Wait until two segments of each of the others were read: all that was stored before is read by then."""
    marks = {name: _received(node, name) for name in others}
    until(
        lambda: all(_received(node, name) > mark + SEGMENT * ENVS for name, mark in marks.items()), "others"
    )


def test_one_of_three_killed_in_mid_episode_costs_its_open_segment_alone(
    redis_address: Address, tmp_path: Path, report: Report
) -> None:
    _, lost = _play_and_kill(redis_address, tmp_path / "one", 3, 0.0, kill=True)
    report.injected("SIGKILL of 1 of 3 clients in mid-episode")
    report.lost(lost, "steps of it")


@pytest.mark.slow
def test_one_of_eight_killed_leaves_the_others_their_rate(
    redis_address: Address, tmp_path: Path, report: Report
) -> None:
    whole, _ = _play_and_kill(redis_address, tmp_path / "whole", 8, 10.0, kill=False)
    killed, lost = _play_and_kill(redis_address, tmp_path / "killed", 8, 10.0, kill=True)
    report.injected("SIGKILL of 1 of 8 clients in mid-episode")
    report.lost(lost, f"steps of it; the others made {killed:.0f} instead of {whole:.0f} steps/s")
    assert killed >= 0.95 * whole
