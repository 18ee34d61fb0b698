"""Runs and checkpoints of strangers: nothing of theirs is executed before somebody here agreed to it."""

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from soulsgui.cli.main import run
from soulsgui.config.layers import combine, defaults_layer
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import UsageError
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.runner.run.agreed import AgreedRuns, RunNotAgreedError
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.start import resumption
from soulsgui.telemetry.store import query_history
from soulsgui.telemetry.store.schema import StoreError, open_for_reading, open_for_writing
from soulsgui.telemetry.store.writer import StoreWriter
from soulsgui.training.agents import make_agent
from soulsgui.training.checkpoint import Checkpoint, write_checkpoint
from soulsgui.wire.control import TRUST_ANY, HistoryQueryParams, RunResumeParams
from soulsgui.wire.manifest import CONFIG, Manifest

Capture = pytest.CaptureFixture[str]

STRANGER = "strangers_canary"

GAME = """
import os
from pathlib import Path
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
Path(os.environ["CANARY"]).touch()
gymnasium.register("Stranger-v0", CartPoleEnv, max_episode_steps=50)
class Wrapper(gymnasium.Wrapper):
    pass
"""

HARMLESS: list[dict[str, Any]] = [
    {},
    {"env.kwargs": {"sutton_barto_reward": True}},
    {"env.wrappers": ["FlattenObservation", {"TimeLimit": {"max_episode_steps": 9}}]},
    {"env.wrappers": [{"soulsgui.environments.partial:ShowOnly": {"indices": [0, 2]}}]},
]
ASKED_ABOUT: dict[str, dict[str, Any]] = {
    "environment": {"env.id": f"{STRANGER}:Stranger-v0"},
    "wrapper": {"env.wrappers": [f"{STRANGER}:Wrapper"]},
    "wrapper with arguments": {"env.wrappers": [{f"{STRANGER}:Wrapper": {}}]},
    "a text for a wrapper": {"env.wrappers": [{"RecordVideo": {"video_folder": "CANARY"}}]},
    "a text for the environment": {"env.kwargs": {"render_mode": "rgb_array"}},
    "a text deep inside": {"env.kwargs": {"parts": [{"of": ["it:all"]}]}},
    "hook": {"client.restart_hook": f"{STRANGER}:start"},
    "network": {"network.name": f"{STRANGER}:Net"},
}


def settings_with(values: dict[str, Any]) -> Settings:
    return combine([defaults_layer(), Layer("test", {"env.id": "CartPole-v1"} | values)])


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Those of the user."""
    return Folders(tmp_path / "config", tmp_path / "data")


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that is there once anything of the stranger was executed."""
    path = tmp_path / "canary"
    monkeypatch.setenv("CANARY", str(path))
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / f"{STRANGER}.py").write_text(GAME)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    yield path
    sys.modules.pop(STRANGER, None)
    gymnasium.registry.pop("Stranger-v0", None)


def checkpoint(values: dict[str, Any], policy: dict[str, Any] | None = None) -> Checkpoint:
    env = gymnasium.make("CartPole-v1")
    spec = MLPPolicySpec((4,), 2, 0, (), "tanh", False)
    figures = dict.fromkeys(("attempt", "model_id", "updates", "env_steps", "episodes"), 1)
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space).to_json()
    info = Manifest(
        run_id="run", algorithm="ppo", env_id=values.get("env.id", "CartPole-v1"), spaces=spaces,
        policy=policy or spec.to_json(), **figures,
    )  # fmt: skip
    weights = {name: np.zeros(shape, np.float32) for name, shape in spec.tensor_shapes().items()}
    return Checkpoint(info, weights, {"agent": np.zeros(1)}, {"agent": {}, "high_water": {}})


def strangers_run(root: Path, values: dict[str, Any], inside: bool) -> RunFolder:
    """A run folder whose configuration stands in its checkpoint, or as in older ones beside it alone."""
    made = RunFolder(root / "2026-11-20_10-00-00_theirs")
    library = Library(root)
    made.root.mkdir(parents=True)
    library.write_record(made, RunRecord(id=made.run_id, created=1.0, number=1, state="stopped"))
    library.write_settings(made, settings_with(values))
    found = checkpoint(values)
    settings = settings_with(values) if inside else None
    write_checkpoint(made.checkpoint, Checkpoint(**vars(found) | {"settings": settings}))
    return made


def evaluate(folders: Folders, path: Path, *words: str) -> int:
    own = ("--config-dir", str(folders.config), "--data-dir", str(folders.data))
    return run(["evaluate", str(path), "--episodes", "1", *words, *own])


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("values", ASKED_ABOUT.values(), ids=ASKED_ABOUT)
def test_a_strangers_folder_runs_nothing_before_somebody_agrees(
    folders: Folders, canary: Path, capsys: Capture, values: dict[str, Any], inside: bool
) -> None:
    theirs = strangers_run(folders.data.parent / "stick", values, inside)
    copied = RunFolder(folders.runs / theirs.run_id)
    shutil.copytree(theirs.root, copied.root)
    for path in (theirs.root, theirs.checkpoint, copied.checkpoint):
        assert evaluate(folders, path) == 1
        assert "agree with --trust" in capsys.readouterr().err
    own = ["--config-dir", str(folders.config), "--data-dir", str(folders.data)]
    assert run(["serve", "--resume", copied.run_id, *own]) == 1
    assert "agree with --trust" in capsys.readouterr().err
    library, agreed = Library(folders.runs), AgreedRuns(folders)
    with pytest.raises(RunNotAgreedError) as refused:
        resumption(library, agreed, RunResumeParams())
    assert [one.id for one in library.summaries(None)] == [copied.run_id]
    assert library.checkpoints.list(copied)[0].valid
    assert not canary.exists()
    assert STRANGER not in sys.modules
    # What is agreed to is what was told, and nothing else.
    asks = refused.value.asks
    assert asks is not None
    for trust in (TRUST_ANY, asks.digest):
        assert resumption(library, agreed, RunResumeParams(trust=trust)).run == copied
    with pytest.raises(RunNotAgreedError):
        resumption(library, agreed, RunResumeParams(trust=asks.digest[1:]))
    agreed.agree(settings_with(values))
    assert resumption(library, agreed, RunResumeParams()).run == copied
    # That covers no other thing.
    library.write_settings(copied, settings_with(values | {"client.restart_hook": "os:abort"}))
    with pytest.raises(RunNotAgreedError):
        resumption(library, agreed, RunResumeParams())


@pytest.mark.parametrize("values", HARMLESS)
def test_what_runs_nothing_of_a_stranger_needs_no_question(folders: Folders, values: dict[str, Any]) -> None:
    assert AgreedRuns(folders).asks(settings_with(values)) is None


def test_what_was_agreed_to_once_is_evaluated_without_a_question(
    folders: Folders, canary: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = strangers_run(folders.data.parent / "stick", ASKED_ABOUT["environment"], inside=True)
    monkeypatch.setattr(sys, "stdin", _Terminal(iter(["no\n", "yes\n"])))
    assert evaluate(folders, theirs.checkpoint) == 1
    assert "Stranger-v0" in capsys.readouterr().out
    assert not canary.exists()
    assert evaluate(folders, theirs.checkpoint) == 0
    assert canary.exists()
    assert evaluate(folders, theirs.checkpoint, "--json") == 0


class _Terminal:
    def __init__(self, answers: Iterator[str]) -> None:
        self._answers = answers

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return next(self._answers)


def test_the_policy_of_a_checkpoint_imports_nothing_that_was_not_agreed_to(
    folders: Folders, canary: Path, capsys: Capture
) -> None:
    settings = settings_with({"network.name": "mlp_layer_norm"})
    env = gymnasium.make("CartPole-v1")
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space)
    policy = json.loads(json.dumps(make_agent("ppo", settings, spaces, "cpu").policy_spec()))
    policy["network"] = f"{STRANGER}:Net"
    path = folders.data.parent / "stick"
    write_checkpoint(path, checkpoint({}, policy))
    assert evaluate(folders, path) == 1
    assert f"The owner of this computer has not agreed to “{STRANGER}:Net”" in capsys.readouterr().err
    assert not canary.exists()


def test_the_configuration_of_a_checkpoint_is_covered_by_its_manifest(
    folders: Folders, canary: Path, capsys: Capture
) -> None:
    theirs = strangers_run(folders.data.parent / "stick", {}, inside=True)
    # What stands beside it is not what it was saved under.
    Library(theirs.root.parent).write_settings(theirs, settings_with(ASKED_ABOUT["environment"]))
    assert evaluate(folders, theirs.checkpoint) == 0
    config = theirs.checkpoint / CONFIG
    config.write_text(config.read_text().replace("CartPole-v1", "Acrobot-v1"))
    assert evaluate(folders, theirs.checkpoint) == 1
    assert f"{CONFIG} has" in capsys.readouterr().err
    assert not canary.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("name", ["logs", "previous", "network.txt", "checkpoint/elsewhere"])
def test_a_run_that_leads_elsewhere_is_not_gone_on_with(folders: Folders, tmp_path: Path, name: str) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    (tmp_path / "mine").mkdir()
    library, agreed = Library(folders.runs), AgreedRuns(folders)
    assert resumption(library, agreed, RunResumeParams()).run == theirs
    (theirs.root / name).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=f"{name} is a link"):
        resumption(library, agreed, RunResumeParams())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("name", ["manifest.json", "note.txt", "weights.safetensors"])
def test_a_pipe_where_a_file_belongs_keeps_nobody(folders: Folders, name: str) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    (theirs.checkpoint / name).unlink(missing_ok=True)
    os.mkfifo(theirs.checkpoint / name)
    (info,) = Library(folders.runs).checkpoints.list(theirs)
    assert info.valid == (name == "note.txt")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_pipe_where_the_curves_belong_keeps_nobody(folders: Folders, end: str) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    StoreWriter(theirs.store).close()
    pipe = theirs.store.with_name(theirs.store.name + end)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(StoreError, match="is not a file"), open_for_reading(theirs.store):
        pass


@pytest.mark.parametrize("data", [b"[" * 300_000, b"\x80", b"[]", b"9" * 5000])
def test_versions_that_are_none_hide_no_run(folders: Folders, data: bytes) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    theirs.versions.write_bytes(data)
    assert Library(folders.runs).versions(theirs) == {}


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        (
            "episodes",
            "VIEW {} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
        ),
        ("clients", "TABLE {} (id INTEGER PRIMARY KEY, name TEXT AS (printf('%.*c', 209715200, 'x')))"),
        ("metrics", "VIRTUAL TABLE {} USING rtree(id, name, other)"),
        ("episode_entries", "INDEX {} ON episodes (printf('%.*c', row, 'x'))"),
    ],
)
def test_a_store_that_computes_what_is_read_is_refused(folders: Folders, name: str, instead: str) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    StoreWriter(theirs.store).close()
    with closing(sqlite3.connect(theirs.store)) as connection:
        kind = "INDEX" if "INDEX" in instead else "TABLE"
        connection.execute(f"DROP {kind} {name}")
        connection.execute(f"CREATE {instead.format(name)}")
        connection.commit()
    with pytest.raises(StoreError, match="no run writes"), open_for_reading(theirs.store):
        pass
    with pytest.raises(StoreError, match="no run writes"):
        open_for_writing(theirs.store)


def test_a_store_of_earlier_versions_is_read_with_what_stands_beside(folders: Folders) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    StoreWriter(theirs.store).close()
    with closing(sqlite3.connect(theirs.store)) as connection:
        connection.executescript("""
            DROP TABLE resources; DROP TABLE attempts;
            CREATE TABLE attempts (
                attempt INTEGER PRIMARY KEY,
                update_count INTEGER NOT NULL,
                env_steps INTEGER NOT NULL,
                episodes INTEGER NOT NULL,
                model_id INTEGER NOT NULL,
                time REAL NOT NULL
            );
            CREATE TABLE greedy_episodes (client TEXT NOT NULL, cut INTEGER NOT NULL DEFAULT 0);
        """)
    assert query_history(theirs.store, HistoryQueryParams()).clients == []


def test_no_value_of_a_strangers_store_fills_the_memory(folders: Folders) -> None:
    theirs = strangers_run(folders.runs, {}, True)
    StoreWriter(theirs.store).close()
    with closing(sqlite3.connect(theirs.store)) as connection:
        connection.execute("INSERT INTO clients VALUES (1, printf('%.*c', 2000000, 'x'))")
        connection.commit()
    with pytest.raises(StoreError, match="too big"):
        query_history(theirs.store, HistoryQueryParams())
