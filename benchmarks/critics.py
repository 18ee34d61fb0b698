"""Agents for actions within bounds, off-policy, in a bare loop: returns at equal steps and at equal seconds.

One environment, one thread, one gradient step an environment step, no Redis: what differs is the agent
alone. Each is trained as it is shipped; `tqc_small` has two critics of two layers of 256 units. Those of
Stable-Baselines3 and its contrib package (`peer_…`) take part where they are installed, with their defaults;
`peer_crossq_small` has critics of two layers of 256 units, too, in place of 1024. All begin to learn after
1,000 steps of chance. Seconds are those of the processor, so that other work beside it hardly counts;
evaluations are greedy, of episodes that training never saw, and count neither.

Appends a line of JSON for each; begun again, it goes on with what is missing there.

python -m benchmarks.critics FILE [--steps N] [--every N] [--seeds 1,2] [--only NAME ...] [--tasks ID ...]
python -m benchmarks.critics FILE --table
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from soulsgui.config.layers import combine, over_defaults
from soulsgui.config.parsing import Layer
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.policy import make_policy
from soulsgui.process import ONE_THREAD
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.training.agents import make_agent

TASKS = ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5")
OURS: dict[str, dict[str, Any]] = {
    "sac": {},
    "td3": {"sac.agent": "td3"},
    "tqc": {"sac.agent": "tqc"},
    "tqc_small": {"sac.agent": "tqc", "sac.critics": 2, "network.value_hidden_sizes": [256, 256]},
    "crossq": {"sac.agent": "crossq"},
}
PEERS = ("peer_sac", "peer_td3", "peer_tqc", "peer_crossq", "peer_crossq_small")
RANDOM_STEPS = 1_000
EPISODES = 10
EVALUATED_SEED = 10_000

Play = Callable[[NDArray[Any]], NDArray[Any]]
"""From an observation to a greedy action."""


def evaluate(env_id: str, play: Play) -> float:
    """Return the mean return of greedy episodes."""
    env, returns = gymnasium.make(env_id), []
    for number in range(EPISODES):
        obs, _ = env.reset(seed=EVALUATED_SEED + number)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(play(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return statistics.fmean(returns)


class Ours:
    """One of our agents, with a memory of all it saw."""

    def __init__(self, env_id: str, name: str, seed: int) -> None:
        values = {"env.id": env_id, "seed": seed, "algorithm": "sac", "stop.mean_return": None, **OURS[name]}
        settings = combine(over_defaults([Layer("benchmark", values)]))
        self._env = gymnasium.make(env_id)
        spaces = SpacesSpec.from_env(self._env.observation_space, self._env.action_space)
        self._agent = make_agent("sac", settings, spaces, "cpu")
        self._policy = make_policy(self._agent.policy_spec())
        self._policy.load(self._agent.export_weights())
        self._settings, self._rng = settings.sac, np.random.default_rng(seed)
        self._obs = self._env.reset(seed=seed)[0]
        self._env.action_space.seed(seed)
        self._steps: list[tuple[Any, ...]] = []

    def learn(self, steps: int) -> None:
        """Play and learn for so many steps."""
        for _ in range(steps):
            if len(self._steps) < RANDOM_STEPS:
                played = self._env.action_space.sample()
                action = self._policy.from_environment(played[None])
            else:
                action, _ = self._policy.act(self._obs[None], self._rng)
                played = self._policy.to_environment(action)[0]
            found, reward, terminated, truncated, _ = self._env.step(played)
            self._steps.append((self._obs, action[0], reward, found, not terminated))
            self._agent.observe(self._obs[None])
            self._obs = self._env.reset()[0] if terminated or truncated else found
            if len(self._steps) > RANDOM_STEPS:
                self._agent.update(self._drawn())
                self._policy.load(self._agent.export_weights())

    def _drawn(self) -> NStepBatch:
        chosen = self._rng.integers(len(self._steps), size=self._settings.batch_size)
        obs, action, reward, found, goes_on = zip(*(self._steps[one] for one in chosen), strict=True)
        return NStepBatch(
            obs=np.array(obs, np.float32),
            action=np.array(action, np.float32),
            reward=np.array(reward, np.float32),
            next_obs=np.array(found, np.float32),
            discount=np.array(goes_on, np.float32) * np.float32(self._settings.gamma),
        )

    def play(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return the greedy action."""
        action: NDArray[Any] = self._policy.to_environment(self._policy.greedy(obs[None]))[0]
        return action


class Peer:
    """An agent of Stable-Baselines3 or its contrib package."""

    def __init__(self, env_id: str, name: str, seed: int) -> None:
        import sb3_contrib  # only who compares has it
        import stable_baselines3

        kinds = {
            "peer_sac": stable_baselines3.SAC,
            "peer_td3": stable_baselines3.TD3,
            "peer_tqc": sb3_contrib.TQC,
            "peer_crossq": sb3_contrib.CrossQ,
            "peer_crossq_small": sb3_contrib.CrossQ,
        }
        values = {"policy_kwargs": {"net_arch": [256, 256]}} if name.endswith("_small") else {}
        self._model = kinds[name]("MlpPolicy", env_id, seed=seed, learning_starts=RANDOM_STEPS, **values)

    def learn(self, steps: int) -> None:
        """Play and learn for so many steps."""
        self._model.learn(steps, reset_num_timesteps=False)

    def play(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return the greedy action."""
        action: NDArray[Any] = self._model.predict(obs, deterministic=True)[0]
        return action


def train(env_id: str, name: str, seed: int, steps: int, every: int) -> dict[str, Any]:
    """Train an agent; return its greedy returns after each `every` steps, and the seconds until then."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    one = (Ours if name in OURS else Peer)(env_id, name, seed)
    seconds, rows = 0.0, []
    for done in range(every, steps + 1, every):
        began = time.process_time()
        one.learn(every)
        seconds += time.process_time() - began
        rows.append((done, round(seconds, 1), round(evaluate(env_id, one.play), 2)))
    asked = {"task": env_id, "agent": name, "seed": seed, "steps": steps, "every": every}
    return asked | {"rows": rows, "torch": version("torch")}


def table(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield rows of a table: what each has come to at the last step of all, and at the last second of all."""
    by_task: dict[str, dict[str, list[list[tuple[float, float, float]]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in found:
        by_task[one["task"]][one["agent"]].append(one["rows"])
    yield "| task | agent | seeds | ms a step | return at equal steps | at equal seconds |"
    yield "|---|---|---|---|---|---|"
    for task, agents in by_task.items():
        last = min(rows[-1][0] for all_rows in agents.values() for rows in all_rows)
        until_s = min(rows[-1][1] for all_rows in agents.values() for rows in all_rows)
        for name, all_rows in agents.items():
            step_ms = statistics.fmean(rows[-1][1] / rows[-1][0] for rows in all_rows) * 1000
            at_steps = [next(row[2] for row in rows if row[0] == last) for rows in all_rows]
            at_seconds = [
                max((row for row in rows if row[1] <= until_s), default=rows[0])[2] for rows in all_rows
            ]
            come_to = f"{spread(at_steps)} ({last:,} steps) | {spread(at_seconds)} ({until_s:.0f} s)"
            yield f"| {task} | `{name}` | {len(all_rows)} | {step_ms:.1f} | {come_to} |"


def spread(values: list[float]) -> str:
    """Return mean and standard deviation."""
    return f"{statistics.fmean(values):,.1f} ± {statistics.pstdev(values):,.1f}"


def main() -> None:
    """Train what is missing in the file, or print its table."""
    if not ONE_THREAD.items() <= os.environ.items():
        # Read by libraries when they are loaded; the seconds of the processor are those of all threads.
        words = [sys.executable, "-m", "benchmarks.critics", *sys.argv[1:]]
        raise SystemExit(subprocess.call(words, env=os.environ | ONE_THREAD))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--only", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    lines = asked.file.read_text(encoding="utf-8").splitlines() if asked.file.exists() else []
    told = [json.loads(line) for line in lines]
    found = [one for one in told if (one.get("steps"), one.get("every")) == (asked.steps, asked.every)]
    if asked.table:
        print("\n".join(table(found)))
        return
    done = {(one["task"], one["agent"], one["seed"]) for one in found}
    for seed in map(int, asked.seeds.split(",")):
        for env_id in asked.tasks:
            for name in asked.only:
                if (env_id, name, seed) in done:
                    continue
                trained = train(env_id, name, seed, asked.steps, asked.every)
                with asked.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(trained) + "\n")
                print(env_id, name, seed, trained["rows"][-1], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
