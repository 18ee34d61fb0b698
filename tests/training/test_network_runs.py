"""Networks that numpy can't run, from the configuration to the samples of a client, over a real server."""

import logging
from pathlib import Path

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.training.nodes import tell_networks
from soulsgui.wire.connection import Address
from tests.rl.support import SPACES, dqn_settings
from tests.training.nodes import dqn_settings as small_dqn_settings
from tests.training.nodes import let_play, running_node, small_settings, vtrace_settings

CAMERA = {
    "env__id": "tests.environments.toys:ToysCamera-v0",
    "env__num_envs": 2,
    "env__wrappers": [{"FrameStackObservation": {"stack_size": 4}}],
    "network__name": "impala_resnet",
    "ppo__epochs": 1,
}


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "vtrace"])
def test_a_client_plays_with_a_network_of_images(
    redis_address: Address, tmp_path: Path, algorithm: str
) -> None:
    make = {"ppo": small_settings, "dqn": small_dqn_settings, "vtrace": vtrace_settings}[algorithm]
    with running_node(redis_address, tmp_path, make(**CAMERA)) as node:
        # Joining, it compared its network with the server's.
        assert let_play(node, redis_address, updates=3).checks["network"]
        assert not node.node.agent.normaliser.count


def test_the_networks_are_told_in_log_and_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = RunFolder(tmp_path)
    with caplog.at_level(logging.INFO):
        tell_networks(DQNAgent(SPACES, dqn_settings(), seed=0), run, "4×84×84: 4 channels (first)")
    image, *lines = run.network.read_text(encoding="utf-8").splitlines()
    assert image == "image 4×84×84: 4 channels (first)"
    assert caplog.messages == [image, *lines]
    assert lines[0] == f"values: {4 * 32 + 32 + 32 * 32 + 32 + 32 * 3 + 3:,} parameters"
    assert [line.split() for line in lines[1:]] == [
        ["0", "Linear", "32", "160"], ["1", "Tanh", "32", "0"], ["2", "Linear", "32", "1,056"],
        ["3", "Tanh", "32", "0"], ["4", "Linear", "3", "99"],
    ]  # fmt: skip
    tell_networks(np.zeros(1), RunFolder(tmp_path / "other"))  # what can't tell is passed over
    assert not (tmp_path / "other").exists()
