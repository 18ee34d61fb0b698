"""A computer that was set up to play only refuses to train, before anything is started."""

import importlib.util

import pytest

from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from tests.runner.running import call


async def test_a_run_is_refused_where_torch_is_missing(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "torch" else find(name, *more)
    )
    with pytest.raises(Refused, match="set up to play only") as refused:
        await call(runner, "run.start")
    assert "python3 packaging/bootstrap.py setup" in refused.value.remedy
    assert runner.status().run.id == ""
