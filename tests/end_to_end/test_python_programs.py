"""The programs of docs/asynchronous.md run as they stand there, but for fewer steps."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.end_to_end.server import last_json, soulsgui

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "asynchronous.md").read_text(encoding="utf-8"), re.DOTALL
)


def run(number: int, folder: Path, *shorter: tuple[str, str]) -> str:
    """Run a program as its reader would; return what it printed."""
    text = PROGRAMS[number]
    for long, short in shorter:
        assert long in text
        text = text.replace(long, short)
    (folder / "program.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_each_actor_imports_of_a_program_needs_no_torch(tmp_path: Path, number: int) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[number], encoding="utf-8")
    as_in_an_actor = "import runpy, sys; runpy.run_path('program.py', run_name='__mp_main__')"
    words = [sys.executable, "-c", f"{as_in_an_actor}; sys.exit('torch' in sys.modules)"]
    done = subprocess.run(
        words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_asynchronous_trainer_leaves_models_and_curves(tmp_path: Path) -> None:
    fewer = ("max_opts=3000", "max_opts=400"), ("eval_interval=500", "eval_interval=200")
    said = run(0, tmp_path, *fewer, ("save_interval=1000", "save_interval=200"))
    assert re.search(r"samples/s, .* optimisation steps/s, .* s, best evaluation \d", said)
    rows = re.findall(r"^([01]), (\d+), ", said, re.MULTILINE)
    assert [actor for actor, _ in rows] == ["0", "1"]
    # One of them may have started only when the other had played enough.
    assert any(int(steps) > 0 for _, steps in rows)
    model = tmp_path / "cartpole_model"
    curves = EventAccumulator(str(model))
    curves.Reload()
    assert [one.step for one in curves.Scalars("eval_reward")] == [200, 400]
    assert [one.step for one in curves.Scalars("loss")] == [100, 200, 300, 400]
    assert curves.Scalars("samples_total")[-1].value >= 500
    best = max(one.value for one in curves.Scalars("eval_reward"))
    assert {"200", "400", "best", "last"} <= {path.name for path in model.iterdir()}
    played = soulsgui("evaluate", str(model / "best"), "--episodes", "5", "--json", folder=tmp_path)
    assert last_json(played.stdout)["mean_return"] == pytest.approx(best), played.stderr


def test_an_agent_of_ones_own_is_synced_recorded_and_learns(tmp_path: Path) -> None:
    said = run(1, tmp_path, ("max_opts=4000", "max_opts=2000"))
    found = re.findall(r"'opt_steps': (\d+), 'td_error': [\d.]+, 'eval_reward': ([\d.]+)", said)
    assert [step for step, _ in found] == ["1000", "2000"]
    # Who pushes by chance keeps the pole up for about 22 steps, who always pushes one way for 9.
    assert float(found[-1][1]) > 60
    assert "the end" in said


def test_central_inference_from_a_program(tmp_path: Path) -> None:
    # How much comes of so few seconds is the machine's: tests/modes/seed/test_trainer.py waits for it.
    said = run(2, tmp_path, ("start(30.0)", "start(3.0)"))
    assert re.fullmatch(r"TrainStats\(env_steps=[1-9]\d*, .*, restarts=\{\}\)\n\d+\n", said)
