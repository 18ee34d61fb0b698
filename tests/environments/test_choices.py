"""Which actions are valid: told by single environments, by vector ones in every mode, and by the report."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from soulsgui.environments.check import check
from soulsgui.environments.choices import DiscreteSpec, read_mask, read_masks
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.errors import EnvironmentCheckError
from tests.environments.toys import Counter, Masked, valid_at

ENV_ID = "tests.environments.toys:ToysMasked-v0"


class Stuck(Masked):
    def mask(self, ended: bool) -> Any:
        return super().mask(ended or self.steps == 1)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_tells_the_masks_of_each_observation(mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([lambda: Masked(3), lambda: Masked(4)], autoreset_mode=mode)
    stepper, rng = EnvStepper(vector), np.random.default_rng(0)
    obs = stepper.reset(seed=1)
    ends = 0
    for _ in range(20):
        assert stepper.mask is not None
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in stepper.mask]) + 1
        result = stepper.step(actions)
        assert result.next_mask is not None
        assert result.reset_mask is not None
        assert result.reset_mask is stepper.mask
        ended = result.terminated | result.truncated
        wanted = valid_at(result.next_obs) | ended[:, None]
        np.testing.assert_array_equal(result.next_mask[result.valid], wanted[result.valid])
        acted_on_next = ~ended if mode is AutoresetMode.NEXT_STEP else np.ones(2, np.bool_)
        np.testing.assert_array_equal(
            result.reset_mask[acted_on_next], valid_at(result.reset_obs)[acted_on_next]
        )
        ends += int(ended.sum())
        obs = result.reset_obs
    assert ends >= 6
    assert len(obs) == 2
    stepper.close()


def test_environments_without_masks_tell_none_and_one_that_leaves_no_action_is_an_error() -> None:
    stepper = EnvStepper(SyncVectorEnv([Counter], autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset(seed=1)
    result = stepper.step(np.zeros(1, np.int64))
    assert (stepper.mask, result.next_mask, result.reset_mask) == (None, None, None)
    stepper = EnvStepper(SyncVectorEnv([lambda: Stuck(3)], autoreset_mode=AutoresetMode.SAME_STEP))
    stepper.reset(seed=1)
    with pytest.raises(EnvironmentCheckError, match="no action is valid"):
        stepper.step(np.array([1]))


def test_masks_of_a_vector_count_only_where_they_were_told() -> None:
    told = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1]], np.int8)
    info = {"action_mask": told, "_action_mask": np.array([True, False, True])}
    assert read_masks(info, 3, 3).tolist() == [[True, False, False], [True] * 3, [False, True, True]]
    assert read_masks({}, 2, 3).all()
    assert read_masks({"action_mask": told[[0, 2]]}, 2, 3).sum() == 3


@pytest.mark.parametrize("value", [np.ones(4), np.ones((1, 3)), None, "all", [1, 0]])
def test_a_misshapen_mask_is_an_error(value: Any) -> None:
    with pytest.raises(EnvironmentCheckError, match="there are 3 actions"):
        read_mask(value, 3)


def test_the_report_tells_of_masks_and_tries_valid_actions_only() -> None:
    report = check(ENV_ID, {}, [])
    assert report.problems == ()
    assert report.spaces is not None
    assert (report.spaces.action, report.spaces.masked_actions) == (DiscreteSpec(4, 1, masked=True), 4)
    assert SpacesSpec.from_json(report.spaces.to_json()) == report.spaces
    plain = check("tests.environments.toys:ToysCounter-v0", {}, []).spaces
    assert plain is not None
    assert plain.masked_actions == 0
    assert "masked" not in plain.to_json()["action"]


def test_the_report_tells_of_bad_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Masked, "mask", lambda self, ended: np.zeros(4) if self.steps == 1 else np.ones(4))
    assert "leaves no action" in check(ENV_ID, {}, []).problems[0]
    monkeypatch.setattr(Masked, "mask", lambda self, ended: np.ones(5))
    assert "there are 4 actions" in check(ENV_ID, {}, []).problems[0]
