"""Processes that learn together: real ones, that meet through torch.distributed."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest
import torch
from torch import Tensor, nn

from soulsgui.process import child_env
from soulsgui.training import group
from soulsgui.training.checkpoint import newest_resumable
from soulsgui.training.group import LearnerLostError, learning_together
from soulsgui.wire.connection import Address, connect
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import (
    RunningNode,
    dqn_settings,
    join,
    play,
    running_node,
    small_settings,
)
from tests.training.players import Player

_LEADER = """
import sys, time
from soulsgui.config.layers import as_settings
from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.training.checkpoint import newest_resumable
from soulsgui.training.group import learning_together
settings = as_settings({"learner": {"processes": 2}})
spaces = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(2))
class Agent:
    def share(self, leader): print(leader._processes[0].pid, flush=True)
with learning_together(settings, spaces, Agent(), "cpu"):
    sys.stdin.read()
"""


pytestmark = pytest.mark.processes


def _helpers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "learner" in child.cmdline()]


def _gathered(node: RunningNode) -> Player:
    """Let a player join when all processes are there: each takes a while to import torch."""
    until(lambda: node.node.training.status.phase != "loading" or node.failure is not None, "its beginning")
    return join(node)


def test_two_processes_learn_what_one_does_and_end_with_it(redis_address: Address, tmp_path: Path) -> None:
    weights = []
    for processes in (1, 2):
        settings = small_settings(learner__processes=processes, seed=5)
        with running_node(redis_address, tmp_path / str(processes), settings) as node:
            play(_gathered(node), rounds=2)
            node.wait_for_updates(2)
            assert len(_helpers()) == processes - 1
            weights.append(node.node.agent.export_weights())
        assert not _helpers()
        with connect(redis_address, "test") as connection:
            connection.flushdb()
    for name, array in weights[0].items():
        np.testing.assert_allclose(weights[1][name], array, rtol=1e-3, atol=1e-4, err_msg=name)


class Failing(nn.Linear):
    """A network that a helper can't compute; the trainer can."""

    features = 2
    seen = 0

    def __init__(self, shape: tuple[int, ...], hidden_sizes: tuple[int, ...], activation: str) -> None:
        super().__init__(shape[0], self.features)

    def forward(self, obs: Tensor) -> Tensor:
        Failing.seen += torch.is_grad_enabled()
        if "learner" in sys.argv and Failing.seen > 3:  # that it works is tried before
            raise torch.OutOfMemoryError("of the GPU")
        return super().forward(obs)


@pytest.mark.allow_warnings
@pytest.mark.parametrize(("network", "code"), [("mlp", -9), (f"{__name__}:Failing", 1)])
def test_when_one_is_gone_it_ends(redis_address: Address, tmp_path: Path, network: str, code: int) -> None:
    settings = dqn_settings(learner__processes=2, dqn__dueling=True, network__name=network)
    node = RunningNode(redis_address, tmp_path, settings)
    try:
        player = _gathered(node)
        player.deliver(16)
        if code == -9:
            node.wait_for_updates(1)
            (helper,) = _helpers()
            helper.kill()

        def failed() -> bool:
            if node.failure is None:
                player.deliver(1)
            return node.failure is not None

        until(failed, "the trainer's end")
    finally:
        node.stop()
    assert isinstance(node.failure, LearnerLostError)
    assert str(node.failure) == f"Process 2 of the 2 that learn together ended with code {code}."
    assert not _helpers()
    saved = newest_resumable(node.run)
    assert (saved is not None) == (node.node.agent.updates > 0), "what was learned before is saved"


def test_when_the_trainer_is_killed_the_others_end() -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | child_env(),
        text=True,
    )
    with leader:
        helper = psutil.Process(int(leader.stdout.readline()))
        leader.kill()
        leader.wait()
        helper.wait(LIMIT_S)


def test_one_that_does_not_even_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "own_command", lambda role: [sys.executable, "-c", "raise SystemExit(7)"])
    spaces, agent = cast("Any", SimpleNamespace(to_json=dict)), cast("Any", None)
    with (
        pytest.raises(LearnerLostError, match=r"Process 2 of the 2 .* ended with code 7 before it was ready"),
        learning_together(small_settings(learner__processes=2), spaces, agent, "cpu"),
    ):
        raise AssertionError("it learns alone")
