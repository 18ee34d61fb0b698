import json
from pathlib import Path

import numpy as np
import pytest
import safetensors

from soulsgui.errors import CheckpointError, SoulsGuiError
from soulsgui.modes import export
from soulsgui.modes.export import export_onnx, export_safetensors
from soulsgui.training.checkpoint import Checkpoint, write_checkpoint
from soulsgui.wire.manifest import Manifest
from tests.rl.agents.cases import CASES


@pytest.fixture(autouse=True)
def no_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars of progress that others show are watched by no thread."""
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)


def saved(folder: Path, name: str) -> Path:
    """A checkpoint of an agent that has learned a little."""
    case = CASES[name]
    agent = case.make(3)
    case.learn(agent, 0)
    info = Manifest(
        run_id="run-1", attempt=1, model_id=4, updates=1, env_steps=9, episodes=1, algorithm=case.algorithm,
        env_id="Toy-v0", spaces=agent.spaces.to_json(), policy=agent.policy_spec(), resumable=False,
    )  # fmt: skip
    write_checkpoint(folder / "checkpoint", Checkpoint(info, agent.export_weights()))
    return folder / "checkpoint"


def told(_doing: str, _part: float) -> None:
    """Nobody listens."""


def test_weights_are_written_with_what_they_are_for(tmp_path: Path) -> None:
    path = saved(tmp_path, "ppo")
    target = tmp_path / "weights.safetensors"
    assert "read back without differences" in export_safetensors(path, target, told)
    with safetensors.safe_open(target, "numpy") as file:
        about = file.metadata()
        assert json.loads(about["policy"])["kind"] == "mlp"
        assert (about["env_id"], about["model_id"]) == ("Toy-v0", "4")
        assert "policy.0.weight" in set(file.keys())
    (path / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="can't be used"):
        export_safetensors(path, target, told)


@pytest.mark.allow_warnings  # torch's, of packages that are not installed
@pytest.mark.parametrize("name", ["ppo", "ppo of box", "c51", "iqn", "dqn of images"])
def test_a_graph_says_what_the_policy_says(tmp_path: Path, name: str) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path, target = saved(tmp_path, name), tmp_path / "policy.onnx"
    assert "onnxruntime gives the results of the policy for 64 observations" in export_onnx(
        path, target, told
    )
    about = {one.key: one.value for one in onnx.load(target).metadata_props}
    assert json.loads(about["policy"]) == json.loads((path / "manifest.json").read_text())["policy"]
    (given,) = runtime.InferenceSession(str(target)).get_inputs()
    assert given.name == "observation"
    assert isinstance(given.shape[0], str)  # as many at once as one likes


@pytest.mark.allow_warnings
def test_a_graph_that_says_something_else_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(export, "inverse_std", lambda var, eps: np.full_like(var, 2.0))
    with pytest.raises(SoulsGuiError, match="gives different results than the policy"):
        export_onnx(saved(tmp_path, "ppo"), tmp_path / "policy.onnx", told)


def test_what_onnx_is_not_written_for_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(SoulsGuiError, match="is missing") as missing:
        export_onnx(saved(tmp_path, "ppo"), tmp_path / "policy.onnx", told)
    assert "soulsgui[onnx]" in missing.value.remedy
    monkeypatch.undo()
    pytest.importorskip("onnxruntime")
    with pytest.raises(CheckpointError, match="with a memory") as refused:
        export_onnx(saved(tmp_path / "other", "r2d2 with an lstm"), tmp_path / "policy.onnx", told)
    assert "safetensors" in refused.value.remedy
