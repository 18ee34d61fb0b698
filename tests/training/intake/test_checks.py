"""What a segment must be before the learner sees it: each reason, and only the bad ones."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.frame_stacks import IMAGE, Pictures
from soulsgui.experience.frame_stacks import NUMBERS as BESIDE
from soulsgui.experience.segments import Segments
from soulsgui.training.intake.checks import GOOD, check_segments, count_refused
from soulsgui.wire.messages.chunk import Reason
from tests.environments.toys import Room
from tests.wire.chunks import segments

SPACES = SpacesSpec(BoxSpec((2,), "float32", (-100.0,), (100.0,)), DiscreteSpec(2))
UNBOUNDED = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(2, start=-1))
DIGESTS = {4: 70, 5: 7}


def _check(made: Segments, spaces: SpacesSpec = SPACES) -> tuple[list[bool], dict[str, int]]:
    codes = check_segments(made, spaces, DIGESTS, 5, 5, num_envs=2)
    return (codes == GOOD).tolist(), count_refused(codes)


def _with(column: str, value: Any, at: int = -1, **changed: Any) -> Segments:
    good = segments(model_id=5, **changed)
    spoilt = getattr(good, column).copy()
    spoilt[at] = value
    return segments(model_id=5, **(changed | {column: spoilt}))


BAD: dict[Reason, dict[str, list[float]]] = {
    Reason.LATE: {"model_id_first": [4, -(2**63)], "model_id_last": [6, 4, 2**63 - 1]},
    Reason.LINEAGE: {"digest": [8, 0]},
    Reason.NOT_FINITE: {"obs": [np.nan, np.inf], "reward": [np.nan, -np.inf], "log_prob": [np.nan, -np.inf]},
    Reason.BOUNDS: {
        "obs": [100.5, -101],
        "action": [2, -1, -(2**63)],
        "reward": [1e16, -3e38],
        "log_prob": [0.5],
        "env_index": [2, -1],
        "episode": [-1],
        "first_step": [-1],
        "flags": [4],
    },
}


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [(name, one, reason) for reason, bad in BAD.items() for name, values in bad.items() for one in values],
)
def test_a_bad_value_refuses_its_segment_alone(column: str, value: Any, reason: Reason) -> None:
    assert _check(segments(model_id=5)) == ([True, True], {})
    assert _check(_with(column, value)) == ([True, False], {reason: 1})


@pytest.mark.parametrize(("value", "passes"), [(1e14, True), (1e16, False), (-3e38, False)])
def test_unbounded_observations_must_be_fit_to_compute_with(value: float, passes: bool) -> None:
    made = _with("obs", value, action=np.array([-1, 0, -1, 0, 0]))
    assert _check(made, UNBOUNDED) == ([True, passes], {} if passes else {Reason.BOUNDS: 1})


CHOICES = MultiDiscreteSpec((3, 2), (0, 5), (2,))
SWITCHES = MultiBinarySpec((2,))
NUMBERS = BoxActionSpec(BoxSpec((2,), "float32", (-1.0,), (1.0,)))
GIVEN: dict[Any, Any] = {CHOICES: [[0, 5], [2, 6]], SWITCHES: [[0, 1], [1, 1]], NUMBERS: [[0, -9], [2, 0.1]]}


def _of_kind(spec: Any, **changed: Any) -> Segments:
    """Return good segments with actions of a kind; one value `at` of one column spoilt."""
    return segments(model_id=5, **({"action": np.array((GIVEN[spec] * 3)[:5], spec.dtype)} | changed))


@pytest.mark.parametrize(
    ("spec", "value", "reason"),
    [
        (CHOICES, 3, Reason.BOUNDS),
        (CHOICES, -1, Reason.BOUNDS),
        (SWITCHES, 2, Reason.BOUNDS),
        (SWITCHES, -1, Reason.BOUNDS),
        (NUMBERS, np.nan, Reason.NOT_FINITE),
        (NUMBERS, -np.inf, Reason.NOT_FINITE),
        (NUMBERS, 1e16, Reason.BOUNDS),
        (NUMBERS, -1e16, Reason.BOUNDS),
    ],
)
def test_a_bad_number_of_an_action_refuses_its_segment_alone(spec: Any, value: Any, reason: Reason) -> None:
    made, spaces = _of_kind(spec), replace(SPACES, action=spec)
    assert _check(made, spaces) == ([True, True], {})
    made.action[3, 0] = value
    assert _check(made, spaces) == ([True, False], {reason: 1})


@pytest.mark.parametrize(("spec", "passes"), [(CHOICES, False), (SWITCHES, False), (NUMBERS, True)])
def test_only_a_density_may_be_above_1(spec: Any, passes: bool) -> None:
    log_prob = np.array([-1, -1, -1, 3, -1], np.float32)
    codes, _ = _check(_of_kind(spec, log_prob=log_prob), replace(SPACES, action=spec))
    assert codes == [True, passes]


def test_masks_of_several_choices_are_looked_at_choice_by_choice() -> None:
    spaces = replace(SPACES, action=replace(CHOICES, masked=True))
    mask = np.ones((7, 5), np.bool_)
    assert _check(_of_kind(CHOICES, action_mask=mask), spaces) == ([True, True], {})
    taken, nothing = mask.copy(), mask.copy()
    taken[4, 4] = False  # of the fourth step, at which 6 is chosen
    assert _check(_of_kind(CHOICES, action_mask=taken), spaces) == ([True, False], {Reason.MASK: 1})
    nothing[3, :3] = False  # at the end of the first segment
    assert _check(_of_kind(CHOICES, action_mask=nothing), spaces) == ([False, True], {Reason.MASK: 1})


def test_a_segment_is_refused_for_one_reason_only_also_at_its_end() -> None:
    spoilt = segments(model_id=4, digest=9, reward=np.full(5, np.nan, np.float32))
    assert _check(spoilt) == ([False, False], {Reason.LATE: 2})
    assert _check(_with("obs", np.nan, at=3)) == ([False, True], {Reason.NOT_FINITE: 1}), (
        "its last observation"
    )
    made = segments(model_id=5, model_id_first=np.array([3, 5]), model_id_last=np.array([3, 5]))
    codes = check_segments(made, SPACES, DIGESTS, 1, 5, num_envs=2)  # of weights that nobody remembers
    assert ((codes == GOOD).tolist(), count_refused(codes)) == ([False, True], {Reason.LATE: 1})
    spaces = SpacesSpec(BoxSpec((2,), "uint8", (0,), (9,)), DiscreteSpec(2))
    obs = np.zeros((7, 2), np.uint8)
    obs[5] = 10
    assert _check(segments(model_id=5, obs=obs), spaces) == ([True, False], {Reason.BOUNDS: 1})


MASKED = SpacesSpec(BoxSpec((2,), "float32", (-100.0,), (100.0,)), DiscreteSpec(2, masked=True))


def _masked(row: int | None = None, valid: tuple[bool, bool] = (True, True), **changed: Any) -> Segments:
    """Two good segments of 3 and 2 steps, of which one observation has another mask."""
    mask = np.ones((7, 2), np.bool_)
    if row is not None:
        mask[row] = valid
    return segments(model_id=5, action_mask=mask, **changed)


@pytest.mark.parametrize(
    ("row", "valid", "accepted"),
    [
        (0, (True, False), [True, True]),  # action 0 was taken there
        (3, (False, True), [True, True]),  # nobody acted there
        (0, (False, False), [False, True]),
        (3, (False, False), [False, True]),
        (6, (False, False), [True, False]),
        (0, (False, True), [False, True]),
        (1, (True, False), [False, True]),
        (5, (False, True), [True, False]),
    ],
)
def test_masks_leave_the_action_taken(row: int, valid: tuple[bool, bool], accepted: list[bool]) -> None:
    refused = {} if all(accepted) else {Reason.MASK: 1}
    assert _check(_masked(row, valid), MASKED) == (accepted, refused)
    unknown = _masked(action=np.array([0, 1, 0, 2**40, 0]))
    assert _check(unknown, MASKED) == ([True, False], {Reason.BOUNDS: 1}), "whatever the mask"


@pytest.mark.parametrize(
    ("value", "reason"), [(np.nan, Reason.NOT_FINITE), (-np.inf, Reason.NOT_FINITE), (1e16, Reason.BOUNDS)]
)
def test_a_state_is_finite_and_fit_to_compute_with(value: float, reason: Reason) -> None:
    state = {"hidden": np.zeros((2, 3, 2), np.float32), "cell": np.zeros(2, np.float32)}
    assert _check(segments(model_id=5, state=state)) == ([True, True], {})
    for name in state:
        spoilt = {key: values.copy() for key, values in state.items()}
        spoilt[name].reshape(2, -1)[1, -1] = value
        assert _check(segments(model_id=5, state=spoilt)) == ([True, False], {reason: 1})


ROOM = SpacesSpec(observation_from_space(Room().observation_space), DiscreteSpec(2))


@pytest.mark.parametrize("pictures", [True, False], ids=["pictures", "records"])
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        (0, 0, Reason.BOUNDS),
        (0, 1.5, Reason.BOUNDS),
        (4, 1.5, Reason.BOUNDS),
        (4, np.nan, Reason.NOT_FINITE),
        (8, np.inf, Reason.NOT_FINITE),
    ],
)
def test_parts_of_observations_are_checked(column: int, value: float, reason: Reason, pictures: bool) -> None:
    room = Room()
    obs = np.stack([ROOM.observation.read(room.reset()[0])] * 7)
    assert _check(segments(model_id=5, obs=obs), ROOM) == ([True, True], {})
    obs[BESIDE][5, column] = value
    sent = Pictures(obs[IMAGE], obs[BESIDE]) if pictures else obs
    made = segments(model_id=5, obs=sent)
    assert _check(made, ROOM) == ([True, False], {reason: 1})
    kept = made.take(np.array([True, False]))
    assert len(kept.obs) == 4
