"""A program's own process keeps its threads."""

import pytest
import torch

from soulsgui.training.threads import numpy_threads, threads_of_a_learner


@threads_of_a_learner()
def train() -> None:
    torch.set_num_threads(1)
    assert numpy_threads(1) == 1
    raise KeyError


def test_numpy_has_one_thread_meanwhile_and_all_have_as_many_as_before_afterwards() -> None:
    before = numpy_threads(2)
    if before is None:
        pytest.skip("this numpy brings no OpenBLAS")
    try:
        torch.set_num_threads(2)
        with pytest.raises(KeyError):
            train()
        assert torch.get_num_threads() == 2
        assert numpy_threads(2) == 2
    finally:
        numpy_threads(before)
