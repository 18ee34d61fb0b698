"""What each algorithm learns through the real system, beside what others have published.

Every task is a preset, or (`default_…`) what is shipped with an environment and what learns; trained by
`soulsgui serve` with two local clients, once with each seed, and then evaluated by `soulsgui evaluate`,
greedily, in 100 episodes that training never saw. A run lasts as many steps as the published figure was
reached with, and its newest weights are measured. Where evaluations judge the goal (`stop.judged_by`), it
ends when that is reached, and the weights that reached it are measured. The spread is the standard
deviation over the seeds.

With `--results FILE` each seed is noted when it is done, as a line of JSON; begun again, it goes on
with what is missing there. What was trained with other settings does not count.

python -m benchmarks.returns [--json] [--quick] [--only NAME ...] [--seeds 1,2,3] [--results FILE]
                             [--side-by-side N]
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

from benchmarks.report import Measured, versions
from soulsgui.config.layers import combine, over_defaults, preset_layer, preset_names
from soulsgui.config.parsing import parse_assignments
from soulsgui.config.schema import Settings
from tests.end_to_end.server import soulsgui

ZOO = "rl-baselines3-zoo benchmark.md, one run, deterministic"
CLEANRL = "CleanRL docs, training episodes"
GYMNAX = "gymnax, PPO with a perceptron on the image"
PEER = "nobody; benchmarks/returns_peer.py trains Stable-Baselines3 as long"
MOST = "the most that can be had; nobody has published a figure"

SEEDS = (1, 2, 3, 4, 5)
EPISODES, QUICK_EPISODES = 100, 10
QUICK_PART = 10
_LONGEST_S = 6 * 3600.0


@dataclass(frozen=True)
class Task:
    """One row of the table.

    Attributes:
        name: What it is called here.
        preset: The preset it begins with; empty for the shipped settings alone.
        env_steps: Environment steps that are trained on, at most.
        published: The published mean return; NaN where there is none.
        source: Who published it.
        values: Settings on top of the preset.
        package: What has to be installed besides.
    """

    name: str
    preset: str
    env_steps: int
    published: float
    source: str
    values: tuple[tuple[str, Any], ...] = ()
    package: str = ""


ACROBOT = (("env.id", "Acrobot-v1"),)
LUNARLANDER = (("env.id", "LunarLander-v3"),)

# On top of the 37 details what PureJaxRL has for MinAtar. No preset: these games are not shipped.
MINATAR_BREAKOUT_PPO = (
    ("env.id", "benchmarks.games:MinAtar/Breakout-v1"),
    ("env.num_envs", 32),
    ("network.activation", "relu"),
    ("ppo.minibatch_size", 1024),
    ("ppo.learning_rate", {"schedule": "linear", "from": 0.005, "to": 0}),
)

CARTPOLE_JUDGED = (
    # Evaluations say when it is reached; what is learned is as shipped.
    ("stop.mean_return", 490),
    ("stop.judged_by", "evaluation"),
    ("evaluation.episodes", 50),
)
DQN_AGENTS = {"dqn": 1000, "qr_dqn": 1000, "c51": 1000, "iqn": 1000, "rainbow": 1000, "r2d2": 200}
"""Each with the updates that make two thousand environment steps."""

_DISCRETE = {
    "acrobot": "Acrobot-v1",
    "lunarlander": "LunarLander-v3",
    "frozenlake": "FrozenLake-v1",
}
_CONTINUOUS = {
    "pendulum": "Pendulum-v1",
    "mountaincar": "MountainCarContinuous-v0",
    "bipedalwalker": "BipedalWalker-v3",
    "halfcheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
}
_MUJOCO = ("halfcheetah", "hopper")


def default_tasks() -> Iterable[Task]:
    """Return the tasks with nothing set but what learns, and where.

    They last 100,000 steps; those of the DQN family, which no one else's figure stands beside, half as many.
    """
    for agent, every in DQN_AGENTS.items():
        values = (("algorithm", "dqn"), ("dqn.agent", agent))
        judged = (*values, ("env.id", "CartPole-v1"), ("evaluation.every_updates", every), *CARTPOLE_JUDGED)
        yield Task(f"default_cartpole_{agent}", "", 60_000, 500.0, MOST, judged)
        for name, env_id in _DISCRETE.items():
            yield Task(f"default_{name}_{agent}", "", 50_000, nan, PEER, (*values, ("env.id", env_id)))
    for algorithm, games in {
        "ppo": _DISCRETE | _CONTINUOUS,
        "vtrace": _DISCRETE | _CONTINUOUS,
        "sac": _CONTINUOUS,
        "td3": _CONTINUOUS,
        "tqc": _CONTINUOUS,
        "crossq": _CONTINUOUS,
    }.items():
        relative = algorithm in ("td3", "tqc", "crossq")
        chosen = (("algorithm", "sac"), ("sac.agent", algorithm)) if relative else (("algorithm", algorithm),)
        for name, env_id in games.items():
            values = (*chosen, ("env.id", env_id))
            package = "mujoco" if name in _MUJOCO else ""
            yield Task(f"default_{name}_{algorithm}", "", 100_000, nan, PEER, values, package)


TASKS = (
    Task("cartpole_ppo", "cartpole_ppo", 100_000, 500.0, ZOO),
    Task("cartpole_dqn", "cartpole_dqn", 50_000, 500.0, ZOO),
    Task("cartpole_qr_dqn", "cartpole_qr_dqn", 50_000, 500.0, ZOO),
    Task("cartpole_c51", "cartpole_c51", 500_000, 481.0, CLEANRL),
    Task("cartpole_iqn", "cartpole_iqn", 50_000, 500.0, MOST),
    Task("cartpole_rainbow", "cartpole_rainbow", 50_000, 500.0, MOST),
    Task("cartpole_r2d2", "cartpole_r2d2", 100_000, 500.0, MOST),
    Task("cartpole_recurrent_ppo", "cartpole_recurrent_ppo", 200_000, 500.0, MOST),
    Task("cartpole_vtrace", "cartpole_vtrace", 500_000, 500.0, f"{ZOO} (A2C)"),
    Task("pendulum_sac", "pendulum_sac", 20_000, -157.0, ZOO),
    Task("pendulum_ppo", "pendulum_ppo", 100_000, -172.2, ZOO),
    Task("acrobot_ppo", "cartpole_ppo", 1_000_000, -73.5, ZOO, ACROBOT),
    Task("acrobot_dqn", "cartpole_dqn", 100_000, -76.6, ZOO, ACROBOT),
    Task("acrobot_qr_dqn", "cartpole_qr_dqn", 100_000, -69.1, ZOO, ACROBOT),
    Task("lunarlander_dqn", "cartpole_dqn", 100_000, 154.4, ZOO, LUNARLANDER),
    Task("lunarlander_ppo", "lunarlander_ppo", 1_000_000, 242.1, ZOO),
    Task("minatar_breakout_ppo", "ppo_37_details", 10_000_000, 28.0, GYMNAX, MINATAR_BREAKOUT_PPO, "minatar"),
    *default_tasks(),
)


@dataclass(frozen=True)
class Trained:
    """What one seed came to.

    Attributes:
        seed: The seed.
        mean_return: Mean return of the newest weights.
        best_return: That of the best model, where there is one.
        solved: Whether the run ended because evaluations had reached its goal: the best model is what counts.
        env_steps: Steps trained on.
        seconds: How long the training took.
    """

    seed: int
    mean_return: float
    best_return: float | None
    env_steps: int
    seconds: float
    solved: bool = False

    @property
    def value(self) -> float:
        """What is measured of it."""
        return self.best_return if self.solved and self.best_return is not None else self.mean_return


@dataclass(frozen=True)
class Row(Measured):
    """One task: `value` is the mean over the seeds.

    Attributes:
        spread: Standard deviation over the seeds; 0 for one.
        seeds: What each came to.
    """

    spread: float = 0.0
    seeds: list[Trained] = field(default_factory=list)


class FailedError(Exception):
    """A training or an evaluation failed; the argument says why."""


def why_not(task: Task) -> str:
    """Return why a task can't be trained here; empty when it can."""
    if task.preset and task.preset not in preset_names():
        return f"there is no preset {task.preset}"
    if task.package and find_spec(task.package) is None:
        return f"{task.package} is not installed (pip install --no-deps {task.package})"
    return ""


def assignments(task: Task, seed: int, quick: bool) -> list[str]:
    """Return what is set on top of the preset: `KEY=VALUE`."""
    steps = task.env_steps // QUICK_PART if quick else task.env_steps
    given = {**dict(task.values), "seed": seed, "stop.env_steps": steps}
    preset = preset_layer(task.preset).values if task.preset else {}
    # Elsewhere the goal would end a run before it has made the steps of the published one.
    if (preset | given).get("stop.judged_by") != "evaluation":
        given["stop.mean_return"] = None
    return [f"{key}={json.dumps(value)}" for key, value in given.items()]


def combined(task: Task, changes: Sequence[str]) -> Settings:
    """Return a task's settings with changes on top."""
    presets = [preset_layer(task.preset)] if task.preset else []
    return combine(over_defaults([*presets, parse_assignments(changes)]))


def train(task: Task, seed: int, quick: bool, folder: Path) -> Trained:
    """Train a task with one seed and evaluate what came of it.

    Args:
        task: The task.
        seed: Its seed.
        quick: Whether a tenth of the steps is enough.
        folder: Where runs and settings go.

    Raises:
        FailedError: It did not get through.
    """
    words = [word for change in assignments(task, seed, quick) for word in ("--set", change)]
    preset = ("--preset", task.preset) if task.preset else ()
    done = soulsgui(
        "serve", *preset, "--local-clients", "2", "--until-done", "--json", *words,
        folder=folder, timeout_s=_LONGEST_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise FailedError(f"{task.name}, seed {seed}: {done.stderr.strip()[-2000:]}")
    summary = json.loads(done.stdout)
    newest = evaluated(f"{summary['run_id']}/checkpoint", quick, folder)
    best = Path(summary["run_dir"]) / "best_model"
    best_return = evaluated(f"{summary['run_id']}/best", quick, folder) if best.is_dir() else None
    solved = summary["reached"] == "mean_return"
    return Trained(seed, newest, best_return, summary["env_steps"], summary["seconds"], solved)


def evaluated(checkpoint: str, quick: bool, folder: Path) -> float:
    """Return the mean return of a checkpoint in greedy episodes.

    Raises:
        FailedError: It could not be evaluated.
    """
    episodes = QUICK_EPISODES if quick else EPISODES
    # Seeds far from those of the evaluations during a run, which chose the best model.
    done = soulsgui(
        "evaluate", checkpoint, "--json", "--episodes", str(episodes), "--seed", "1000000",
        folder=folder, timeout_s=_LONGEST_S,
    )  # fmt: skip
    if done.returncode != 0:
        raise FailedError(f"{checkpoint}: {done.stderr.strip()[-2000:]}")
    return float(json.loads(done.stdout)["mean_return"])


def row_of(task: Task, trained: Sequence[Trained]) -> Row:
    """Return the row of a task from what its seeds came to. Pure."""
    returns = [one.value for one in trained]
    mean = statistics.fmean(returns)
    return Row(
        name=task.name,
        value=mean,
        unit="mean return",
        reference=task.published,
        reference_name=f"{task.source}, at {task.env_steps:,} steps",
        ratio=mean / task.published,
        repeats=len(trained),
        spread=statistics.stdev(returns) if len(returns) > 1 else 0.0,
        seeds=list(trained),
    )


class Results:
    """Seeds that were trained, kept in a file of JSON lines: one is added when it is done.

    Args:
        path: The file; None keeps nothing.
        quick: Whether they are trained for a tenth of the steps.
    """

    def __init__(self, path: Path | None, quick: bool) -> None:
        self._path, self._quick = path, quick
        self._lock = threading.Lock()
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {line["key"]: Trained(**line["trained"]) for line in map(json.loads, lines)}

    def find(self, task: Task, seed: int) -> Trained | None:
        """Return what a seed came to, None when it was not trained with these settings yet."""
        return self._known.get(self._key(task, seed))

    def add(self, task: Task, trained: Trained) -> None:
        """Keep what a seed came to."""
        line = {"task": task.name, "key": self._key(task, trained.seed), "trained": asdict(trained)}
        if self._path is not None:
            with self._lock, self._path.open("a") as file:
                file.write(json.dumps({**line, "versions": versions()}) + "\n")

    def _key(self, task: Task, seed: int) -> str:
        settings = combined(task, assignments(task, seed, self._quick)).model_dump_json()
        return f"{task.name} {seed} {sha256(settings.encode()).hexdigest()[:16]}"


def trained_all(
    tasks: Sequence[Task], seeds: Sequence[int], quick: bool, results: Results, side_by_side: int
) -> Iterable[tuple[Task, list[Trained] | FailedError]]:
    """Train tasks with seeds, several at a time.

    Args:
        tasks: The tasks, in order.
        seeds: The seeds of each.
        quick: As of `train`.
        results: What is known already, and where more is kept.
        side_by_side: How many are trained at a time.

    Yields:
        Each task with what its seeds came to, or the first failure.
    """

    def one(task: Task, seed: int) -> Trained:
        known = results.find(task, seed)
        if known is not None:
            return known
        with tempfile.TemporaryDirectory() as folder:
            trained = train(task, seed, quick, Path(folder))
        results.add(task, trained)
        return trained

    with ThreadPoolExecutor(side_by_side) as pool:
        waiting = [(task, [pool.submit(one, task, seed) for seed in seeds]) for task in tasks]
        try:
            for task, futures in waiting:
                try:
                    yield task, [future.result() for future in futures]
                except FailedError as error:
                    yield task, error
        finally:
            pool.shutdown(cancel_futures=True)


def in_words(row: Row) -> str:
    """Return a row as a line. Pure."""
    best = [one.best_return for one in row.seeds if one.best_return is not None]
    best_words = f"; best models {statistics.fmean(best):.1f}" if best else ""
    solved = sum(one.solved for one in row.seeds)
    best_words += f"; {solved} solved" if solved else ""
    seconds = statistics.fmean(one.seconds for one in row.seeds)
    steps = round(statistics.fmean(one.env_steps for one in row.seeds))
    return (
        f"{row.name:<24} {row.value:8.1f} ± {row.spread:<6.1f} published {row.reference:8.1f} "
        f"({row.reference_name}){best_words}; {row.repeats} seed(s), {steps:,} steps in {seconds:.0f} s each"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code: 1 where a task failed."""
    names = [task.name for task in TASKS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--quick", action="store_true", help="one seed, a tenth of the steps")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--seeds", default="", help="numbers, separated by commas; default: 1 to 5")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep each seed here, and go on with it")
    parser.add_argument(
        "--side-by-side", type=int, default=1, metavar="N", help="seeds at a time; default: 1"
    )
    arguments = parser.parse_args(argv)
    seeds = [int(word) for word in arguments.seeds.split(",") if word] or list(SEEDS)
    if arguments.quick and not arguments.seeds:
        seeds = seeds[:1]
    tasks = [task for task in TASKS if not arguments.only or task.name in arguments.only]
    missing = {task.name: why_not(task) for task in tasks if why_not(task)}
    for name, reason in missing.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    rows, failed = [], bool(missing and arguments.only)
    results = Results(arguments.results, arguments.quick)
    there = [task for task in tasks if task.name not in missing]
    for task, trained in trained_all(there, seeds, arguments.quick, results, arguments.side_by_side):
        if isinstance(trained, FailedError):
            print(f"failed: {trained}", file=sys.stderr)
            failed = True
            continue
        rows.append(row_of(task, trained))
        if not arguments.json:
            print(in_words(rows[-1]), flush=True)
    if arguments.json:
        told = [{**asdict(row), "versions": versions()} for row in rows]
        # Where nobody has published a figure: JSON knows no NaN.
        print(
            json.dumps(
                [{key: None if value != value else value for key, value in one.items()} for one in told]
            )
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
