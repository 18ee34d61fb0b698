"""The environments of a client in other processes: who hangs while it is made is ended, not the client."""

import pytest

from soulsgui.errors import EnvironmentFault, ProcessFault
from soulsgui.sampling import environment
from soulsgui.sampling.environment import Environment
from soulsgui.system import kill_descendants

SETTINGS = {
    "env.id": "tests.sampling.hanging_toy:ToysHangs-v0",
    "env.kwargs": {},
    "env.wrappers": [],
    "env.num_envs": 2,
    "client.workers": 2,
    "client.hang_seconds": 100.0,
}


def test_workers_that_hang_while_they_are_made_are_ended_and_the_client_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Their own watchdogs find nothing: the client's, which looks later by rights, looks first.
    monkeypatch.setattr(environment, "_LATER_S", -99.0)
    ended: list[ProcessFault] = []

    def on_hang(fault: ProcessFault) -> None:
        ended.append(fault)
        kill_descendants()

    with pytest.raises(EnvironmentFault, match="A worker process of the environment is gone"):
        Environment(SETTINGS, None, on_hang)
    assert ended == []
