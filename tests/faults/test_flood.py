"""A client that floods the server (R12): it is cut off, and weights still go out."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import redis

from soulsgui.wire.connection import Address
from tests.faults import flooder
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.servers import running_server
from tests.training.nodes import STEPS, join, next_round, running_node, small_settings
from tests.training.players import Player

MEMORY = 64 * 2**20
CUT_OFF_WITHIN_S = 10.0
ROUNDS = 5
FLOOD_STEPS = 15_000
"""Steps in each segment of the chunks that flood: they are about a megabyte."""


@contextmanager
def _flood(address: Address, player: Player) -> Iterator["subprocess.Popen[str]"]:
    """Let a process flood the stream of a client that said hello, until the block ends.

    Its chunks are well formed, and too late: which is no fault, so that nothing but their mass gives it away.
    """
    late = player.play(FLOOD_STEPS, model_id_first=np.zeros(2, np.int64), model_id_last=np.zeros(2, np.int64))
    chunk = base64.b64encode(player.packed(late)).decode()
    told = {"address": asdict(address), "client": player.name, "chunk": chunk}
    root = Path(flooder.__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, flooder.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{json.dumps(told)}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def _publish_s(player: Player) -> float:
    """Play rounds; return the longest time from a delivery to the weights that came of it."""
    longest, last = 0.0, -1
    for _ in range(ROUNDS):
        last = next_round(player, last).round_id
        made = player.packed(player.play(STEPS))

        def sent(made: bytes = made) -> bool:
            with suppress(redis.OutOfMemoryError):  # what the server has no room for goes again
                player.send(made)
                return True
            return False

        until(sent, "the server takes a chunk")
        began = time.monotonic()
        until(lambda: player.weights()[0].model_id > last, "new weights")  # noqa: B023
        longest = max(longest, time.monotonic() - began)
    return longest


@pytest.mark.allow_warnings
@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_flooder_is_cut_off_and_weights_still_go_out(tmp_path: Path, report: Report, alone: bool) -> None:
    limits = f"maxmemory {MEMORY}\nmaxmemory-policy noeviction"
    settings = small_settings(redis__max_memory=MEMORY, ppo__n_clients=1, ppo__round_timeout=60.0)
    with (
        running_server(tmp_path, more=limits) as address,
        running_node(address, tmp_path / "run", settings) as node,
    ):
        good = join(node, "good")
        bad = Player(node.connection, node.keys, "bad")
        bad.hello()
        with _flood(address, bad) as process:
            began = time.monotonic()

            def is_cut_off() -> bool:
                session = node.node.attempt.intake.sessions.by_client.get("bad")
                return session is not None and session.status == "quarantined"

            until(is_cut_off, "it is cut off")
            cut_off_s = time.monotonic() - began
            assert cut_off_s <= CUT_OFF_WITHIN_S or not alone  # beside other tests the clock says nothing
            assert "floods" in node.node.attempt.intake.sessions.by_client["bad"].reason
            publish_s = _publish_s(good)
            assert process.stdout is not None
            taken = int(process.stdout.readline())  # it goes on
        good.beat()
        until(lambda: node.told().rejected_by_client.get("bad", {}).get("not_admitted"), "it is counted")
        assert node.node.attempt.intake.sessions.by_client["good"].status == "accepted"
        assert "good" not in node.told().rejected_by_client
        until(lambda: node.connection.memory_usage(node.keys.chunks("bad")) < 2**20, "its stream is swept")
    report.injected(f"a flood of over {taken / 1e6:,.0f} MB a second into {MEMORY / 1e6:,.0f} MB of memory")
    report.lost(0, f"chunks of the other client; weights came {publish_s:.2f} s after its samples at most")
    report.recovered(cut_off_s)
