"""From the command to a mean return: SoulsGUI through its whole system beside Stable-Baselines3, in turn.

Both learn by PPO, each with the settings tuned for it: ours of the preset, theirs of rl-baselines3-zoo. The
clock runs from the command until the mean return of the last 20 training episodes has reached the goal; ours
until everything is saved and ended, too. Who does not reach it in time counts with the whole limit, and the
figure says how many did.

Stable-Baselines3 has an environment of its own, since it wants other versions of what we share:
    python -m venv sb3 && sb3/bin/pip install stable-baselines3 "gymnasium[box2d]"

python -m benchmarks.race --peer sb3/bin/python [--json] [--quick] [--only cartpole lunarlander] [--seeds 1,2]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.report import Measured, versions
from tests.end_to_end.server import soulsgui

SEEDS = (1, 2, 3, 4, 5)
_PEER = Path(__file__).with_name("race_peer.py")
_NAME = "Stable-Baselines3 PPO (zoo)"
_MISSING = (
    "Stable-Baselines3 is not installed for {python}: there is nothing to race against. "
    "Name a Python that has it by --peer (see --help)."
)


@dataclass(frozen=True)
class Track:
    """One task.

    Attributes:
        preset: Ours.
        env_id: The environment.
        goal: Mean return to reach.
        limit_s: Longest time.
    """

    preset: str
    env_id: str
    goal: float
    limit_s: float


TRACKS = {
    "cartpole": Track("cartpole_ppo", "CartPole-v1", 475.0, 120.0),
    "lunarlander": Track("lunarlander_ppo", "LunarLander-v3", 200.0, 600.0),
}


@dataclass(frozen=True)
class Finish:
    """What one seed came to; `seconds` is the limit where the goal was not reached."""

    reached: bool
    seconds: float
    env_steps: int


@dataclass(frozen=True)
class Raced(Measured):
    """A track: median seconds of both sides, and every seed of each."""

    ours: list[Finish]
    theirs: list[Finish]


class FailedError(Exception):
    """A side did not run at all; the argument says why."""


def run_ours(track: Track, seed: int, folder: Path) -> Finish:
    """Train one seed by `soulsgui serve`."""
    values = {"stop.mean_return": track.goal, "seed": seed}
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    words = ["serve", "--preset", track.preset, "--local-clients", "2", "--until-done", "--json", *sets]
    began = time.monotonic()
    try:
        done = soulsgui(*words, folder=folder / f"{track.preset}-{seed}", timeout_s=track.limit_s)
    except subprocess.TimeoutExpired:
        return Finish(False, track.limit_s, 0)
    if not done.stdout.strip():
        raise FailedError(f"seed {seed} ended with {done.returncode}: {done.stderr[-1000:]}")
    told = json.loads(done.stdout)
    reached = told["reached"] == "mean_return"
    return Finish(reached, time.monotonic() - began if reached else track.limit_s, told["env_steps"])


def run_theirs(track: Track, seed: int, python: str) -> Finish:
    """Train one seed by Stable-Baselines3."""
    words = [python, str(_PEER), track.env_id, str(track.goal), str(track.limit_s), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * track.limit_s + 60, check=False)
    if done.returncode:
        raise FailedError(f"Stable-Baselines3, seed {seed}: {done.stderr[-1000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    seconds = told["seconds"]
    return Finish(seconds is not None, track.limit_s if seconds is None else seconds, told["env_steps"])


def race(name: str, seeds: Sequence[int], python: str, folder: Path) -> Raced:
    """Run both sides in turn, a seed at a time, so that a noisy neighbour disturbs both alike."""
    track, ours, theirs = TRACKS[name], [], []
    for seed in seeds:
        ours.append(run_ours(track, seed, folder))
        theirs.append(run_theirs(track, seed, python))
    mine, its = (statistics.median(one.seconds for one in side) for side in (ours, theirs))
    reached = [sum(one.reached for one in side) for side in (ours, theirs)]
    told = (
        f"{track.env_id} to {track.goal:g} (reached by {reached[0]} and {reached[1]} of {len(seeds)} seeds)"
    )
    return Raced(told, mine, "s", its, _NAME, mine / its, len(seeds), ours, theirs)


def has_peer(python: str) -> bool:
    """Whether a Python has Stable-Baselines3."""
    asked = subprocess.run([python, "-c", "import stable_baselines3"], capture_output=True, check=False)
    return asked.returncode == 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark as a program; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--quick", action="store_true", help="one seed of CartPole")
    parser.add_argument("--only", nargs="+", choices=TRACKS, default=list(TRACKS), help="these tasks")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="seeds, with commas between")
    parser.add_argument("--peer", default=sys.executable, help="the Python that has Stable-Baselines3")
    arguments = parser.parse_args(argv)
    names = ["cartpole"] if arguments.quick else arguments.only
    seeds = [int(seed) for seed in arguments.seeds.split(",")][: 1 if arguments.quick else None]
    if not has_peer(arguments.peer):
        print(_MISSING.format(python=arguments.peer), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        found = [race(name, seeds, arguments.peer, Path(folder)) for name in names]
    if arguments.json:
        print(json.dumps([{**asdict(one), "versions": versions()} for one in found]))
        return 0
    for one in found:
        print(
            f"{one.name}: {one.value:.1f} {one.unit}; {one.reference_name}: {one.reference:.1f} {one.unit}; "
            f"ratio {one.ratio:.2f} (median of {one.repeats})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
