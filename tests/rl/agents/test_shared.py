"""What several processes learn together is what one learns alone; here threads stand for the processes."""

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from soulsgui.wire.codec import pack, unpack
from tests.faults.waiting import LIMIT_S
from tests.rl.agents.cases import CASES as EVERY
from tests.rl.agents.cases import MEMBERS, Case, ppo_case, taking
from tests.rl.support import changed, random_batch


class Meeting:
    """What the members of a group share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=LIMIT_S)
        self.queues: list[queue.SimpleQueue[bytes]] = [queue.SimpleQueue() for _ in range(size)]
        self.tensors: list[Tensor] = [torch.zeros(())] * size


class GradientMember:
    """A `Group` whose processes are threads."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self._meeting = rank, meeting.size, meeting
        self.told_of: list[Any] = []

    def tell(self, message: Mapping[str, Any]) -> None:
        self.told_of.append(message)
        for each in self._meeting.queues[1:]:
            each.put(pack(message))

    def told(self) -> Mapping[str, Any] | None:
        data = self._meeting.queues[self.rank].get(timeout=LIMIT_S)
        return unpack(data) if data else None

    def end(self) -> None:
        for each in self._meeting.queues[1:]:
            each.put(b"")

    def broadcast_(self, tensor: Tensor) -> None:
        for rank, others in self._all(tensor):
            if rank == 0:
                assert (others.shape, others.dtype) == (tensor.shape, tensor.dtype)
                tensor.copy_(others)

    def reduce_(self, tensor: Tensor) -> None:
        total = sum(others for _, others in self._all(tensor))
        tensor.copy_(total) if self.rank == 0 else tensor.fill_(torch.nan)

    def all_reduce_(self, tensor: Tensor) -> None:
        tensor.copy_(sum(others for _, others in self._all(tensor)))

    def _all(self, tensor: Tensor) -> list[tuple[int, Tensor]]:
        self._meeting.tensors[self.rank] = tensor.detach().clone()
        self._meeting.barrier.wait()
        found = list(enumerate(self._meeting.tensors))
        self._meeting.barrier.wait()
        return found


CASES = {
    name: EVERY[name]
    for name in (
        "ppo", "ppo with an lstm", "vtrace", "vtrace clipped, normalised, shared", *MEMBERS, "dqn of images",
        "r2d2 with an lstm", "sac", "sac by autograd", "td3", "tqc",
    )
}  # fmt: skip
CASES["ppo of one sample each"] = ppo_case(
    lambda agent, seed: random_batch(agent, seed, (1, 1)), minibatch_size=1
)
CASES["ppo of boxes, minibatches normalised"] = ppo_case(
    spaces=taking("box"), normalize_advantage="minibatch"
)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_together_agents_learn_what_one_learns_alone(case: Case) -> None:
    size = 5  # parts of unequal size, and more processes than some batches can be cut into parts
    alone, leader = case.make(0), case.make(0)
    # The others begin elsewhere: all that they know, they are told.
    helpers = [case.make(1 + rank) for rank in range(1, size)]
    meeting = Meeting(size)
    members = [GradientMember(rank, meeting) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        serving = [
            pool.submit(helper.share(member).serve)
            for helper, member in zip(helpers, members[1:], strict=True)
        ]
        try:
            leader.share(members[0])
            for number in range(4):
                if number == 2:  # as after a divergence: what is followed has changed, too
                    arrays, meta = case.make(99).state()
                    for agent in (alone, leader):
                        agent.load_state(arrays, meta)
                told = [case.learn(agent, number) for agent in (alone, leader)]
                if isinstance(told[0], np.ndarray):
                    np.testing.assert_allclose(told[1], told[0], rtol=2e-3, atol=1e-4)
                elif told[0] is None:
                    told = [agent.figures() for agent in (alone, leader)]
                if isinstance(told[0], dict):
                    assert told[1] == pytest.approx(told[0], rel=5e-3, abs=1e-4)
        finally:
            members[0].end()
        for each in serving:
            each.result(LIMIT_S)
    (expected, _), (found, _) = alone.state(), leader.state()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-3, atol=2e-4, err_msg=name)


def test_what_is_followed_is_sent_only_when_it_has_changed() -> None:
    case = CASES["sac"]
    agent, meeting = case.make(0), Meeting(1)
    member = GradientMember(0, meeting)
    agent.share(member)
    agent.settings = changed(agent.settings, "sac", target_tau=0.0)
    rows = agent._rows(case.batch(agent, 0))
    for _ in range(2):
        agent._gradient(rows, None)
    agent.update(case.batch(agent, 1))
    agent._gradient(rows, None)
    assert [task["follow"] for task in member.told_of] == [True, False, False, True]
