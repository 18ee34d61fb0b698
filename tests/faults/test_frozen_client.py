"""A client frozen in synchronous PPO (R7): the round closes, waits or stops as configured; it comes back."""

import signal
import time
from pathlib import Path

import pytest

from soulsgui.wire.connection import Address
from soulsgui.wire.messages.metrics import UpdateRow
from tests.faults.fleet import fleet
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import RunningNode, running_node, small_settings

STEPS, ENVS = 64, 2

pytestmark = pytest.mark.allow_warnings


def _round_sizes(node: RunningNode, after: int) -> list[tuple[float, float]]:
    """Return (clients, steps) of each round that was trained on after an update."""
    rows = [row for row in node.rows() if isinstance(row, UpdateRow) and row.update > after]
    return [(row.values["clients"], row.values["round_steps"]) for row in rows]


def _without(node: RunningNode, after: int, clients: int) -> list[float]:
    """Return the steps of each round that one client had no part in."""
    return [steps for count, steps in _round_sizes(node, after) if count == clients - 1]


@pytest.mark.parametrize(
    ("policy", "clients", "timeout_s"),
    [
        ("shrink", 2, 1.0),
        ("wait", 2, 1.0),
        # `training/test_lost_members.py` has them all, with clients moved by hand.
        *(
            pytest.param(policy, 4, 30.0, marks=pytest.mark.slow)
            for policy in ("shrink", "wait", "redistribute", "stop")
        ),
    ],
)
def test_a_frozen_client_is_treated_as_configured(
    redis_address: Address, tmp_path: Path, policy: str, clients: int, timeout_s: float, report: Report
) -> None:
    settings = small_settings(
        ppo__lost_member=policy,
        ppo__n_clients=clients,
        ppo__n_steps=STEPS,
        ppo__round_timeout=timeout_s,
        env__num_envs=ENVS,
    )
    whole = float(clients * STEPS * ENVS)
    limit_s = timeout_s + 20 if timeout_s >= 30 else LIMIT_S  # beside other tests the clock says nothing
    with (
        running_node(redis_address, tmp_path / "run", settings) as node,
        fleet(redis_address, tmp_path / "fleet", clients) as them,
    ):
        until(lambda: node.node.agent.updates > 2, "rounds of all")
        them["c1"].send_signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        report.injected(f"SIGSTOP of 1 of {clients} clients, ppo.lost_member: {policy}")
        before = node.node.agent.updates
        if policy == "stop":
            until(lambda: node.node.training.status.stop_reason, "the run wants to be stopped", limit_s)
            assert "lost c1 (" in node.node.training.status.stop_reason
            report.recovered(time.monotonic() - frozen_at)
            return
        if policy == "wait":
            until(lambda: "waiting for c1 (" in node.node.training.status.detail, "it says for whom it waits")
            assert node.node.training.status.phase == "waiting"
            held, elapsed = node.node.agent.updates, node.node.learner.round.elapsed_s
            until(lambda: node.node.learner.round.elapsed_s > elapsed + 1, "it goes on waiting")
            assert node.node.agent.updates == held
        else:
            found = until(lambda: _without(node, before, clients), "a round closes without it", limit_s)[0]
            report.recovered(time.monotonic() - frozen_at)
            # What it owed is missing, or the others made it too.
            assert found == (whole if policy == "redistribute" else whole * (clients - 1) / clients)
        them["c1"].send_signal(signal.SIGCONT)
        thawed_at, thawed = time.monotonic(), node.node.agent.updates
        until(lambda: (clients, whole) in _round_sizes(node, thawed), "it is in a round again", limit_s)
        report.injected("SIGCONT")
        report.recovered(time.monotonic() - thawed_at)
        rejected = node.node.state().rejected
        report.lost(sum(rejected.values()), "segments that came too late")
        assert set(rejected) <= {"late"}
        if policy == "wait":
            assert set(_round_sizes(node, 0)) == {(clients, whole)}, "no round without it"
