"""`soulsgui evaluate`: which checkpoint is meant, what is said of it, and what is wrong with it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from soulsgui.cli.evaluation import find_checkpoint
from soulsgui.cli.main import run
from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.modes import evaluate as evaluating
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.scores import kept_evaluations
from soulsgui.training.checkpoint import Checkpoint, write_checkpoint
from soulsgui.wire.manifest import Manifest

Capture = pytest.CaptureFixture[str]

SPEC = MLPPolicySpec((4,), 2, 0, (), "tanh", False)


def balancing(steps: int, **changed: Any) -> Checkpoint:
    """A checkpoint that balances CartPole by one layer: push to where the pole leans and moves."""
    env = gymnasium.make("CartPole-v1")
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space).to_json()
    what = {"run_id": "run", "env_id": "CartPole-v1", "spaces": spaces, "policy": SPEC.to_json()}
    figures = {"attempt": 1, "episodes": 3, "model_id": steps // 10, "updates": steps // 100}
    what |= {"algorithm": "ppo"} | changed
    info = Manifest(**what, **figures, env_steps=steps, resumable=False)
    lean = np.array([[0, 0, -3, -1], [0, 0, 3, 1]], np.float32)
    return Checkpoint(info, {"policy.0.weight": lean, "policy.0.bias": np.zeros(2, np.float32)})


@pytest.fixture
def made(tmp_path: Path) -> RunFolder:
    library = Library(tmp_path / "data" / "runs")
    made = library.create("one", 1_000_000.0)
    library.write_record(made, RunRecord(id=made.run_id, name="one", created=1.0, state="stopped"))
    set_up(made, id="CartPole-v1")
    return made


def evaluate(made: RunFolder, *words: str) -> int:
    data = made.root.parents[1]
    return run(["evaluate", *words, "--config-dir", str(data / "config"), "--data-dir", str(data)])


def set_up(made: RunFolder, **settings: Any) -> None:
    """Write settings of its environment."""
    changed = {f"env.{key}": value for key, value in settings.items()}
    Library(made.root.parent).write_settings(made, combine([defaults_layer(), Layer("test", changed)]))


def test_a_checkpoint_is_evaluated_the_same_way_each_time_without_torch(made: RunFolder) -> None:
    write_checkpoint(made.checkpoint, balancing(4000))
    words = ["evaluate", "--json", "--episodes", "5", "--seed", "7", "--data-dir", str(made.root.parents[1])]
    text = (
        f"import sys\nfrom soulsgui.cli.main import run\ncode = run({words!r})\n"
        "sys.exit('torch is there' if 'torch' in sys.modules else code)"
    )
    first, again = (
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    found = json.loads(first)
    assert found["episodes"] == len(found["returns"]) == len(found["lengths"]) == 5
    assert found["mean_return"] == np.mean(found["returns"]) > 100  # a random policy makes about 22
    assert (found["env_id"], found["algorithm"], found["seed"]) == ("CartPole-v1", "ppo", 7)
    assert (found["model_id"], found["greedy"], found["run_id"]) == (400, True, "run")
    assert json.loads(again) | {"seconds": 0} == found | {"seconds": 0}


def test_a_checkpoint_is_named_in_many_ways(made: RunFolder) -> None:
    early = made.manual_saves / "early"
    for folder, steps in ((made.checkpoint, 4000), (made.best_model, 2000), (early, 1000)):
        write_checkpoint(folder, balancing(steps))
    meant = {
        made.checkpoint: ("newest", "latest", made.run_id, f"{made.run_id}/newest", str(made.root)),
        made.best_model: ("best", "best_model", f"{made.run_id}/best"),
        early: ("manual_save/early", f"{made.run_id}/manual_save/early", str(early)),
    }
    library = Library(made.root.parent)
    found = {folder: [find_checkpoint(library, name) for name in names] for folder, names in meant.items()}
    assert found == {folder: [folder] * len(names) for folder, names in meant.items()}


def test_the_newest_one_is_meant_and_told_in_words(made: RunFolder, capsys: Capture) -> None:
    write_checkpoint(made.checkpoint, balancing(4000))
    write_checkpoint(made.best_model, balancing(2000))
    assert evaluate(made, "--episodes", "1", "--stochastic") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(made.checkpoint)
    assert lines[1].startswith("CartPole-v1, ppo, model 400 after 4,000 steps; 1 episode, stochastic, from")
    assert lines[2].startswith("mean return ")
    (kept,) = kept_evaluations(made)
    assert (kept.checkpoint, kept.model_id, kept.episodes, kept.greedy) == ("checkpoint", 400, 1, False)
    assert run(["checkpoints", "list", "--data-dir", str(made.root.parents[1])]) == 0
    assert f"{kept.mean_return:.1f} ± 0.0" in capsys.readouterr().out
    # The environment is that of the run, unless it is set.
    set_up(made, wrappers=[{"TimeLimit": {"max_episode_steps": 3}}])
    shorter = "env.wrappers=[{TimeLimit: {max_episode_steps: 2}}]"
    for words, length in (([], 3), (["--set", shorter], 2)):
        assert evaluate(made, "--episodes", "2", "--json", *words) == 0
        assert json.loads(capsys.readouterr().out)["lengths"] == [length, length]


def test_what_takes_the_place_of_a_checkpoint_meanwhile_is_not_played(
    made: RunFolder, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(made.checkpoint, balancing(4000))
    play, folders = evaluating.evaluate_checkpoint, list[Path]()

    def replaced(path: Path, *others: Any) -> Any:
        write_checkpoint(made.checkpoint, balancing(5000, policy={"kind": "dream"}))
        folders.append(path)
        return play(path, *others)

    monkeypatch.setattr(evaluating, "evaluate_checkpoint", replaced)
    assert evaluate(made, "--episodes", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["checkpoint"], found["model_id"]) == (str(made.checkpoint), 400)
    assert [one.exists() for one in folders] == [False], "nothing of it is left"


def test_an_evaluation_is_filmed_and_leaves_nothing_else_whenever_it_is_killed(
    made: RunFolder, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(made.checkpoint, balancing(4000))
    set_up(made, wrappers=[{"TimeLimit": {"max_episode_steps": 3}}])
    film = tmp_path / "films" / "film.mp4"
    film.parent.mkdir()
    film.write_text("an older one")
    play, seen = evaluating.evaluate_checkpoint, list[Path]()

    def look(*words: Any) -> Any:
        found = play(*words)
        seen.extend(film.parent.iterdir())
        return found

    monkeypatch.setattr(evaluating, "evaluate_checkpoint", look)
    assert evaluate(made, "--episodes", "1", "--json", "--video", str(film)) == 0
    assert json.loads(capsys.readouterr().out)["video"] == str(film)
    assert film.read_bytes()[4:8] == b"ftyp"
    assert seen == [*film.parent.iterdir()] == [film]
    assert evaluate(made, "--video", "film.avi") == 2
    assert "should end with .mp4 or .gif" in capsys.readouterr().err


def test_what_can_not_be_evaluated_is_said_in_words(made: RunFolder, capsys: Capture) -> None:
    def said(*words: str, code: int = 1) -> str:
        assert evaluate(made, *words, "--json") == code
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err
        return err

    assert "has no checkpoint yet" in said()
    assert "There is no run “nobody”" in said("nobody")
    nothing = str(made.root / "nothing")
    assert f"There is no checkpoint at {nothing}" in said(nothing).replace("\n", " ")
    write_checkpoint(made.checkpoint, balancing(4000))
    assert "has no checkpoint “best_model”" in said("best")
    aside = made.root.parent.parent / "models"
    for name in ("best", "last"):
        write_checkpoint(aside / name, balancing(4000))
    assert f"holds checkpoints: best, last. Name one of them: {aside / 'last'}" in said(str(aside)).replace(
        "\n", " "
    )
    assert "--episodes should be at least 1" in said("--episodes", "0", code=2)
    assert "can't be imported" in said("--set", "env.id=nowhere:Game-v0", code=2)
    assert "trained with a different observation space than Acrobot-v1" in said("--set", "env.id=Acrobot-v1")
    weights = made.checkpoint / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "weights.safetensors has" in said()
    assert "weights.safetensors has" in said(str(made.checkpoint))
    (made.checkpoint / "manifest.json").write_text("{")
    assert "manifest.json can't be read" in said(str(made.checkpoint))
    write_checkpoint(made.checkpoint, balancing(4000, policy={"kind": "dream"}))
    assert "“dream”" in said()
    write_checkpoint(made.checkpoint, balancing(4000, algorithm="dqn", agent="c51"))
    assert "of c51, whose policy does not sample" in said("--stochastic", code=2)


def test_episodes_of_an_environment_without_a_limit_are_cut(made: RunFolder, capsys: Capture) -> None:
    game = "tests.environments.toys:ToysCounter-v0"
    set_up(made, id=game, kwargs={"length": 10**9})
    env = gymnasium.make(game)
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space).to_json()
    policy = MLPPolicySpec((2,), 2, 0, (), "tanh", False)
    weights = {name: np.zeros(shape, np.float32) for name, shape in policy.tensor_shapes().items()}
    info = balancing(4000, spaces=spaces, policy=policy.to_json()).info
    write_checkpoint(made.checkpoint, Checkpoint(info, weights))
    words = ["--episodes", "2", "--set", "evaluation.max_steps=50", "--trust"]
    assert evaluate(made, *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lengths"], found["cut"], found["max_steps"]) == ([50, 50], 2, 50)
    assert evaluate(made, *words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("2 of 2 episodes did not end and were cut at 50 steps (evaluation.max_steps)")
