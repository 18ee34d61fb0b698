"""Stable-Baselines3 at equal steps, as rl-baselines3-zoo sets it; run with a Python of its own that has it.

Trains each task with each seed, evaluates the last weights deterministically in episodes that training never
saw, and appends a line of JSON for each to a file. Begun again, it goes on with what is missing there.

python benchmarks/returns_peer.py FILE [--steps N] [--seeds 1,2] [--only NAME ...]
"""

import argparse
import json
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

EPISODES = 50
KINDS: dict[str, Any] = {"ppo": PPO, "a2c": A2C, "sac": SAC}


def linear(start: float) -> Any:
    """Return a schedule that falls to 0 with the part of the run that is left."""
    return lambda left: left * start


def wide(std: float) -> dict[str, Any]:
    """Return the network of the zoo's MuJoCo settings."""
    return {"log_std_init": std, "ortho_init": False, "activation_fn": torch.nn.ReLU, "net_arch": [256, 256]}


@dataclass(frozen=True)
class Peer:
    """One task: `values` are what hyperparams/*.yml of the zoo have for it.

    Attributes:
        kind: Of `KINDS`.
        env_id: The environment.
        values: What the algorithm is made with.
        envs: Environments side by side.
        normalize: Whether observations and rewards are normalised.
    """

    kind: str
    env_id: str
    values: dict[str, Any] = field(default_factory=dict)
    envs: int = 1
    normalize: bool = False


PPO_LANDER = {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4}
# The zoo's settings of A2C for the Bullet games; it has none for those of MuJoCo.
A2C_CONTINUOUS = {
    **{"n_steps": 8, "gae_lambda": 0.9, "vf_coef": 0.4, "use_sde": True},
    "policy_kwargs": {"log_std_init": -2, "ortho_init": False},
}
PEERS = {
    # hyperparams/ppo.yml; LunarLander-v2, HalfCheetah-v3, Hopper-v3 there. FrozenLake is in none: defaults.
    "acrobot_ppo": Peer("ppo", "Acrobot-v1", {"n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4}, 16, True),
    "lunarlander_ppo": Peer("ppo", "LunarLander-v3", {**PPO_LANDER, "ent_coef": 0.01}, 16),
    "frozenlake_ppo": Peer("ppo", "FrozenLake-v1"),
    "pendulum_ppo": Peer(
        "ppo",
        "Pendulum-v1",
        {
            **{"n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "learning_rate": 1e-3},
            **{"clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4},
        },
        4,
    ),
    "mountaincar_ppo": Peer(
        "ppo",
        "MountainCarContinuous-v0",
        {
            **{
                "batch_size": 256,
                "n_steps": 8,
                "gamma": 0.9999,
                "learning_rate": 7.77e-05,
                "ent_coef": 0.00429,
            },
            **{"clip_range": 0.1, "n_epochs": 10, "gae_lambda": 0.9, "max_grad_norm": 5, "vf_coef": 0.19},
            **{"use_sde": True, "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False}},
        },
        1,
        True,
    ),
    "bipedalwalker_ppo": Peer(
        "ppo",
        "BipedalWalker-v3",
        {
            **{"n_steps": 2048, "batch_size": 64, "gae_lambda": 0.95, "gamma": 0.999, "n_epochs": 10},
            **{"learning_rate": 3e-4, "clip_range": 0.18},
        },
        32,
        True,
    ),
    "halfcheetah_ppo": Peer(
        "ppo",
        "HalfCheetah-v5",
        {
            **{"batch_size": 64, "n_steps": 512, "gamma": 0.98, "learning_rate": 2.0633e-05},
            **{"ent_coef": 0.000401762, "clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92},
            **{"max_grad_norm": 0.8, "vf_coef": 0.58096, "policy_kwargs": wide(-2)},
        },
        1,
        True,
    ),
    "hopper_ppo": Peer(
        "ppo",
        "Hopper-v5",
        {
            **{"batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05},
            **{"ent_coef": 0.00229519, "clip_range": 0.2, "n_epochs": 5, "gae_lambda": 0.99},
            **{"max_grad_norm": 0.7, "vf_coef": 0.835671, "policy_kwargs": wide(-2)},
        },
        1,
        True,
    ),
    # hyperparams/a2c.yml
    "acrobot_a2c": Peer("a2c", "Acrobot-v1", {"ent_coef": 0.0}, 16, True),
    "lunarlander_a2c": Peer(
        "a2c",
        "LunarLander-v3",
        {"gamma": 0.995, "n_steps": 5, "learning_rate": linear(0.00083), "ent_coef": 0.00001},
        8,
    ),
    "frozenlake_a2c": Peer("a2c", "FrozenLake-v1"),
    "pendulum_a2c": Peer("a2c", "Pendulum-v1", {**A2C_CONTINUOUS, "learning_rate": linear(7e-4)}, 8, True),
    "mountaincar_a2c": Peer(
        "a2c",
        "MountainCarContinuous-v0",
        {
            **{"n_steps": 100, "use_sde": True, "sde_sample_freq": 16},
            "policy_kwargs": {"log_std_init": 0.0, "ortho_init": False},
        },
        4,
        True,
    ),
    "bipedalwalker_a2c": Peer(
        "a2c", "BipedalWalker-v3", {**A2C_CONTINUOUS, "learning_rate": linear(0.00096)}, 16, True
    ),
    "halfcheetah_a2c": Peer(
        "a2c", "HalfCheetah-v5", {**A2C_CONTINUOUS, "learning_rate": linear(0.00096)}, 4, True
    ),
    "hopper_a2c": Peer("a2c", "Hopper-v5", {**A2C_CONTINUOUS, "learning_rate": linear(0.00096)}, 4, True),
    # hyperparams/sac.yml
    "pendulum_sac": Peer("sac", "Pendulum-v1", {"learning_rate": 1e-3}),
    "mountaincar_sac": Peer(
        "sac",
        "MountainCarContinuous-v0",
        {
            **{"learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1},
            **{"train_freq": 32, "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0},
            **{"use_sde": True, "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]}},
        },
    ),
    "hopper_sac": Peer("sac", "Hopper-v5", {"learning_starts": 10_000}),
    "halfcheetah_sac": Peer("sac", "HalfCheetah-v5", {"learning_starts": 10_000}),
    "bipedalwalker_sac": Peer(
        "sac",
        "BipedalWalker-v3",
        {
            **{
                "learning_rate": 7.3e-4,
                "buffer_size": 300_000,
                "batch_size": 256,
                "gamma": 0.98,
                "tau": 0.02,
            },
            **{"train_freq": 64, "gradient_steps": 64, "learning_starts": 10_000, "use_sde": True},
            **{"policy_kwargs": {"log_std_init": -3, "net_arch": [400, 300]}},
        },
    ),
}


def train(name: str, peer: Peer, seed: int, steps: int) -> dict[str, Any]:
    """Train one seed and return what it came to."""
    started = time.monotonic()
    envs = make_vec_env(peer.env_id, peer.envs, seed=seed)
    unseen = make_vec_env(peer.env_id, 1, seed=1_000_000)
    if peer.normalize:
        gamma = peer.values.get("gamma", 0.99)
        envs = VecNormalize(envs, gamma=gamma)
        unseen = VecNormalize(unseen, training=False, norm_reward=False)
    model = KINDS[peer.kind]("MlpPolicy", envs, seed=seed, device="cpu", **peer.values)
    model.learn(steps)
    seconds = time.monotonic() - started
    if peer.normalize:
        unseen.obs_rms = envs.obs_rms
    mean, spread = evaluate_policy(model, unseen, n_eval_episodes=EPISODES, deterministic=True)
    return {
        **{"task": name, "seed": seed, "steps": steps, "mean_return": float(mean), "std": float(spread)},
        **{"env_steps": model.num_timesteps, "seconds": round(seconds, 1)},
        "versions": {one: version(one) for one in ("stable_baselines3", "gymnasium", "torch")},
    }


def main() -> None:
    """Train what is missing in the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = arguments.file.read_text().splitlines() if arguments.file.exists() else []
    done = {(line["task"], line["seed"], line["steps"]) for line in map(json.loads, lines)}
    for seed in map(int, arguments.seeds.split(",")):
        for name in arguments.only:
            if (name, seed, arguments.steps) in done:
                continue
            line = train(name, PEERS[name], seed, arguments.steps)
            with arguments.file.open("a") as file:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
