"""What agents with a memory, of masked actions and of images play through an inference server: as locally."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.config.layers import as_settings
from soulsgui.config.schema import flatten
from soulsgui.environments.choices import Mask
from soulsgui.environments.make import make_env, make_vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.experience.segments import Segments
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import make_policy
from soulsgui.policies.specs import MEMORY
from soulsgui.sampling.rollout import Rollout
from soulsgui.sampling.sampling_modes import explore
from soulsgui.training.agents import make_agent
from soulsgui.wire.connection import Address
from tests.modes.seed.serving import HandTrainer, ServingThread, grant_for, let_play
from tests.sampling.free_trainer import playing_client

TOYS = "tests.environments.toys:Toys"
ENVS, STEPS = 3, 90
STACK = {"env.wrappers": [{"FrameStackObservation": {"stack_size": 2}}]}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "memory": ("Counter", {"dqn.agent": "r2d2"}),
    "masks": ("Masked", {}),
    "images": ("Camera", {"network.name": "small_cnn", **STACK}),
}


def by_place(pieces: Iterable[Segments]) -> dict[tuple[int, int, int], dict[str, NDArray[Any]]]:
    """Return what is told of each (environment, episode, step); states where a segment begins."""
    found = {}
    for one in pieces:
        obs, step, row = np.asarray(one.obs), 0, 0
        for number, length in enumerate(one.length.tolist()):
            env, episode = int(one.env_index[number]), int(one.episode[number])
            for place in range(length):
                told = {name: getattr(one, name)[step + place] for name in ("action", "reward", "log_prob")}
                told |= {"obs": obs[row + place], "next_obs": obs[row + place + 1]}
                if one.action_mask is not None:
                    told["mask"] = one.action_mask[row + place]
                if not place:
                    told |= {name: rows[number] for name, rows in one.state.items()}
                found[env, episode, int(one.first_step[number]) + place] = told
            step, row = step + length, row + length + 1
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_played_through_a_server_is_what_is_played_locally(kind: str, redis_address: Address) -> None:
    toy, more = KINDS[kind]
    played = {"env.id": f"{TOYS}{toy}-v0", "env.kwargs": {"length": 20}, "env.num_envs": ENVS}
    played["client.segment_length"] = 7  # so that segments begin within episodes, too
    settings = as_settings({"algorithm": "dqn", "inference": "server", **played, **more})
    env = settings.env.id, settings.env.kwargs, settings.env.wrappers
    with closing(make_env(*env)) as made:
        spaces = SpacesSpec.from_env(made.observation_space, made.action_space, masked=kind == "masks")
    agent = make_agent("dqn", settings, spaces, "cpu")
    with closing(HandTrainer(redis_address, **flatten(settings.model_dump(mode="json")))) as trainer:
        trainer.spaces, trainer.policy = spaces, agent.policy_spec()
        trainer.weights = lambda _: agent.export_weights()
        trainer.begin_run("run-1")
        trainer.publish(1)
        with ServingThread(redis_address), playing_client(redis_address) as playing:
            let_play(trainer, playing)
            trainer.until(lambda: trainer.steps() >= STEPS, f"{STEPS} steps")
        served = by_place(one.segments for one in trainer.received())

    policy, grant = make_policy(trainer.policy), grant_for("")
    policy.load(agent.export_weights())
    memory = remembered_by(policy)
    with closing(make_vector(*env, ENVS)) as vector:
        rollout = Rollout(
            EnvStepper(vector), spaces, 1, 0, lambda _: None, None, policy.to_environment, memory
        )

        def act(obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None) -> Any:
            return explore(policy, obs, rng, grant, mask)

        local = by_place(rollout.play(act, 1, 0, len(served) + STEPS, lambda: True))
    assert {episode for _, episode, _ in served} >= {0, 1}
    for place, told in served.items():
        for name, value in told.items():
            np.testing.assert_allclose(value, local[place][name], atol=1e-5, err_msg=f"{name} at {place}")
    assert any(told[MEMORY].any() for told in served.values() if MEMORY in told) == (kind == "memory")
    assert all("mask" in told for told in served.values()) == (kind == "masks")
