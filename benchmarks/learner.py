"""Gradient steps and updates of every agent beside bare torch: plain loops over tensors that are ready.

One thread on the CPU learns, on both sides, and the processor time it takes is what counts: on a computer
that does something else as well, seconds say little. PPO and DQN stand beside a bare loop that torch has
compiled (where there is a compiler of C++), the others beside autograd and a fused optimiser over the same
network.

python -m benchmarks.learner [--json] [--quick] [--only NAME ...]
"""

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import bare_learner as bare
from benchmarks.report import Measured, beside, versions
from soulsgui.config.layers import as_settings
from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.exploration import START
from soulsgui.process import child_env
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.buffers.sequences import SequenceBatch
from soulsgui.rl.gradients.dqn import AutogradDQNGradient, CategoricalRule, DQNGradient, ImplicitGradient
from soulsgui.rl.gradients.r2d2 import R2D2Gradient
from soulsgui.rl.gradients.sac import AutogradSACGradient
from soulsgui.rl.optimiser import FlatParameters
from soulsgui.rl.returns import gae
from soulsgui.system import become
from tests.experience.segments import segments_of

_OBS, _ACTIONS, _WIDTH = 8, 4, 128
_ROUND, _EPOCHS, _MINIBATCH = 2048, 10, 64
_BATCH, _CNN_BATCH, _SEQUENCES = 64, 32, 32
_STEPS = 2048

VECTOR = SpacesSpec(BoxSpec((_OBS,), "float32"), DiscreteSpec(_ACTIONS))
IMAGE = SpacesSpec(BoxSpec((4, 84, 84), "uint8"), DiscreteSpec(_ACTIONS))

Once = Callable[[], object]
Row = Callable[[bool, bool], tuple[str, Once, str, Once, int]]
"""Told whether to be quick and whether there is a compiler: name, ours, name of the reference, it, times."""

_AUTOGRAD = "autograd over the same network, fused"


def _time(once: Once, times: int, scale: float) -> Callable[[], float]:
    """Return what measures the processor time of one call, warmed up."""
    for _ in range(2):
        once()

    def measure() -> float:
        began = time.process_time()
        for _ in range(times):
            once()
        return scale * (time.process_time() - began) / times

    return measure


def _windows(rng: np.random.Generator, spaces: SpacesSpec, count: int, weighted: bool = False) -> NStepBatch:
    def observations() -> NDArray[Any]:
        box = spaces.observation
        if box.dtype == "uint8":
            return rng.integers(256, size=(count, *box.shape), dtype=np.uint8)
        return rng.normal(size=(count, *box.shape)).astype(np.float32)

    return NStepBatch(
        obs=observations(),
        action=rng.integers(_ACTIONS, size=count),
        reward=rng.normal(size=count).astype(np.float32),
        next_obs=observations(),
        discount=np.full(count, 0.99, np.float32),
        weight=rng.random(count).astype(np.float32) if weighted else None,
    )


def _dqn_agent(spaces: SpacesSpec, network: dict[str, Any], **dqn: Any) -> DQNAgent:
    values = {"algorithm": "dqn", "network": network, "dqn": dqn}
    kind = R2D2Agent if dqn.get("agent") == "r2d2" else DQNAgent
    return kind(spaces, as_settings(values), 0)


def ppo(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """An update over a round of CartPole's size."""
    steps = _ROUND // 8 if quick else _ROUND
    rng = np.random.default_rng(0)
    values = {"network": {"hidden_sizes": [64, 64], "value_hidden_sizes": [64, 64]}}
    values["ppo"] = {"epochs": _EPOCHS, "minibatch_size": _MINIBATCH}
    agent = PPOAgent(SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(2)), as_settings(values), 0)
    segments = np.full(8, steps // 8)
    ended = np.zeros(8, np.bool_)
    batch = segments_of(
        obs=rng.normal(size=(steps + 8, 4)).astype(np.float32),
        length=segments,
        action=rng.integers(2, size=steps),
        log_prob=np.full(steps, -0.69, np.float32),
        reward=np.ones(steps, np.float32),
        terminated=ended,
        truncated=ended,
    )
    reference = bare.ppo_update(4, 2, steps, _EPOCHS, _MINIBATCH, compiler)
    name = f"PPO update {steps} × {_EPOCHS} epochs, minibatch {_MINIBATCH}"
    return name, lambda: agent.update(batch, START), bare.bare_name(compiler), reference, 1


def dqn(count: int, quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of double, dueling Q-learning with two layers."""
    batch = _windows(np.random.default_rng(0), VECTOR, count)
    agent = _dqn_agent(VECTOR, {"hidden_sizes": [_WIDTH, _WIDTH]}, dueling=True)
    obs, following = torch.from_numpy(batch.obs), torch.from_numpy(batch.next_obs)
    network = bare.Dueling(_OBS, _WIDTH, _ACTIONS)
    reference = bare.dqn_step(network, obs, following, _ACTIONS, compiler)
    name = f"DQN step, dueling {_WIDTH} × 2, batch {count}"
    return name, lambda: agent.update(batch), bare.bare_name(compiler), reference, 50 if quick else 300


def cnn(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of double Q-learning over images."""
    batch = _windows(np.random.default_rng(0), IMAGE, _CNN_BATCH)
    agent = _dqn_agent(IMAGE, {"name": "nature_cnn", "hidden_sizes": [512]})
    obs, following = torch.from_numpy(batch.obs), torch.from_numpy(batch.next_obs)
    reference = bare.dqn_step(bare.NatureCNN(_ACTIONS), obs, following, _ACTIONS, False)
    name = f"DQN step, Nature CNN, batch {_CNN_BATCH}"
    return name, lambda: agent.update(batch), bare.bare_name(False), reference, 3 if quick else 10


def _by_autograd(agent: DQNAgent, make: Callable[[Any, Any, FlatParameters], DQNGradient], rows: Any) -> Once:
    """Return a step with a gradient over copies of an agent's networks, and nothing else."""
    online, target = copy.deepcopy(agent.online), copy.deepcopy(agent.target)
    flat = FlatParameters([online])
    gradient, settings = make(online, target, flat), agent.settings.dqn
    optimiser = torch.optim.Adam([flat.parameter], fused=True)

    def step() -> None:
        gradient(rows, settings)
        optimiser.step()

    return step


def rainbow(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of Rainbow."""
    batch = _windows(np.random.default_rng(0), VECTOR, _BATCH, weighted=True)
    agent = _dqn_agent(VECTOR, {"hidden_sizes": [_WIDTH, _WIDTH]}, agent="rainbow")

    def make(online: Any, target: Any, flat: FlatParameters) -> DQNGradient:
        return AutogradDQNGradient(online, target, flat, CategoricalRule(online.atoms))

    reference = _by_autograd(agent, make, agent._rows(batch))
    name = f"Rainbow step, {_WIDTH} × 2, batch {_BATCH}"
    return name, lambda: agent.update(batch), _AUTOGRAD, reference, 20 if quick else 100


def iqn(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of implicit quantile networks."""
    batch = _windows(np.random.default_rng(0), VECTOR, _BATCH)
    agent = _dqn_agent(VECTOR, {"hidden_sizes": [_WIDTH, _WIDTH]}, agent="iqn", quantiles=32)

    def make(online: Any, target: Any, flat: FlatParameters) -> DQNGradient:
        return ImplicitGradient(online, target, flat, 32, np.random.default_rng(0))

    reference = _by_autograd(agent, make, agent._rows(batch))
    name = f"IQN step, {_WIDTH} × 2, 32 quantiles, batch {_BATCH}"
    return name, lambda: agent.update(batch), _AUTOGRAD, reference, 10 if quick else 30


def r2d2(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of R2D2 over sequences of 20 steps behind a burn-in of 10."""
    rng = np.random.default_rng(0)
    network = {"hidden_sizes": [_WIDTH], "recurrent": "lstm", "recurrent_size": _WIDTH}
    agent = _dqn_agent(VECTOR, network, agent="r2d2", burn_in=10, sequence_length=20)
    steps, count = 30, _SEQUENCES
    every = np.ones((steps, count), np.bool_)
    batch = SequenceBatch(
        number=np.arange(count),
        weight=np.ones(count, np.float32),
        obs=rng.normal(size=(steps + 1, count, _OBS)).astype(np.float32),
        action=rng.integers(_ACTIONS, size=(steps, count)),
        reward=rng.normal(size=(steps, count)).astype(np.float32),
        terminated=~every,
        valid=every,
        learned=np.repeat(np.arange(steps) >= 10, count).reshape(steps, count),
        state=np.zeros((count, 2 * _WIDTH), np.float32),
        exact=np.zeros(count, np.bool_),
    )

    def make(online: Any, target: Any, flat: FlatParameters) -> DQNGradient:
        return R2D2Gradient(online, target, flat, 5)

    reference = _by_autograd(agent, make, agent._rows(batch))
    name = f"R2D2 step, LSTM {_WIDTH}, {count} sequences of 10 + 20"
    return name, lambda: agent.update(batch), _AUTOGRAD, reference, 5 if quick else 20


def sac(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """A step of soft actor-critic."""
    bounds = BoxSpec((2,), "float32", (-1.0, -1.0), (1.0, 1.0))
    spaces = SpacesSpec(BoxSpec((_OBS,), "float32"), BoxActionSpec(bounds))
    network = {"hidden_sizes": [_WIDTH] * 2, "value_hidden_sizes": [_WIDTH] * 2}
    agent = SACAgent(spaces, as_settings({"algorithm": "sac", "network": network}), 0)
    rng = np.random.default_rng(0)
    batch = _windows(rng, VECTOR, 256)._replace(action=rng.normal(size=(256, 2)).astype(np.float32))
    nets = copy.deepcopy(agent.networks)
    flat = FlatParameters(nets.learning)
    gradient, rows = AutogradSACGradient(nets, flat), agent._rows(batch)
    optimiser = torch.optim.Adam([flat.parameter], fused=True)

    def reference() -> None:
        gradient(rows, -2.0)
        optimiser.step()

    name = f"SAC step, {_WIDTH} × 2, batch 256"
    return name, lambda: agent.update(batch), _AUTOGRAD, reference, 20 if quick else 100


def advantages(quick: bool, compiler: bool) -> tuple[str, Once, str, Once, int]:
    """Advantages of a round."""
    rng = np.random.default_rng(0)
    rewards, values, following = (rng.normal(size=_STEPS).astype(np.float32) for _ in range(3))
    ended = np.arange(1, _STEPS + 1) % 256 == 0

    def reference() -> None:
        last, found = 0.0, np.zeros(_STEPS, np.float32)
        for t in range(_STEPS - 1, -1, -1):
            delta = rewards[t] + 0.99 * following[t] * (1 - ended[t]) - values[t]
            last = found[t] = delta + 0.99 * 0.9 * (1 - ended[t]) * last

    ours = partial(gae, rewards, values, following, ended, ended, 0.99, 0.9)
    return f"GAE over {_STEPS} steps", ours, "step by step", reference, 10


ROWS: dict[str, tuple[Row, str, float]] = {
    "gae": (advantages, "ms", 1e3),
    "ppo": (ppo, "ms", 1e3),
    "dqn_64": (partial(dqn, 64), "µs", 1e6),
    "dqn_256": (partial(dqn, 256), "µs", 1e6),
    "rainbow": (rainbow, "µs", 1e6),
    "iqn": (iqn, "ms", 1e3),
    "r2d2": (r2d2, "ms", 1e3),
    "sac": (sac, "µs", 1e6),
    "cnn": (cnn, "ms", 1e3),
}
"""Each figure by its name, with its unit and how many of that a second is."""


def measure(names: Sequence[str], quick: bool) -> list[Measured]:
    """Measure figures by their names."""
    torch.set_num_threads(1)
    compiler = bare.has_compiler()
    found = []
    for name in names:
        row, unit, scale = ROWS[name]
        told, ours, reference_name, reference, times = row(quick, compiler)
        mine, its = (_time(once, times, scale) for once in (ours, reference))
        found.append(beside(told, f"{unit} of processor time", mine, reference_name, its, 3 if quick else 7))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark as a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, a shorter round")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="these figures")
    arguments = parser.parse_args(argv)
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # As the trainer is started: how many threads numpy has, is settled before it is imported.
        own = ["-m", "benchmarks.learner", *(sys.argv[1:] if argv is None else argv)]
        become([sys.executable, *own], os.environ | child_env())
    if arguments.json:
        found = measure(arguments.only, arguments.quick)
        print(json.dumps([{**asdict(one), "versions": versions()} for one in found]))
        return
    for name in arguments.only:
        (one,) = measure([name], arguments.quick)
        print(
            f"{one.name}: {one.value:,.4g} {one.unit}; {one.reference_name}: {one.reference:,.4g}; "
            f"ratio {one.ratio:.3g} (median of {one.repeats})",
            flush=True,
        )
    print(", ".join(f"{name} {version}" for name, version in versions().items()), file=sys.stderr)


if __name__ == "__main__":
    main()
