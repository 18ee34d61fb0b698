"""Offline runs as W&B's own messages tell them; where the package is not installed, what is said then."""

import struct
from collections.abc import Iterator

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.telemetry.sinks.records import Record
from soulsgui.telemetry.sinks.wandb import WandbSink


def test_without_the_package_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, run: RunFolder
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(UsageError, match="wandb") as caught:
        WandbSink(run, Settings())
    assert "pip install wandb" in caught.value.remedy


_HEAD = struct.Struct("<IHB")  # checksum, length, kind of a record: those of a small file are whole


def _records(data: bytes) -> Iterator[bytes]:
    place = len(b":W&B") + 3
    while place < len(data):
        _, length, _ = _HEAD.unpack_from(data, place)
        place += _HEAD.size + length
        yield data[place - length : place]


@pytest.mark.processes
def test_an_offline_run_holds_the_curves(run: RunFolder) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record as Written

    sink = WandbSink(run, Settings(telemetry={"wandb": "offline", "wandb_project": "tried"}))
    sink.write(Record("update", float(n), {"loss": n / 2}, env_steps=64 * n) for n in (1, 2))
    sink.close()
    (file,) = run.root.glob("wandb/offline-run-*/*.wandb")
    written = [Written.FromString(data) for data in _records(file.read_bytes())]
    points = []
    for one in written:
        if one.HasField("history"):
            items = {item.key or ".".join(item.nested_key): item.value_json for item in one.history.item}
            points.append([float(items[name]) for name in ("env_steps", "update/loss", "_timestamp")])
    assert points == [[64, 0.5, 1], [128, 1.0, 2]]
    assert {(one.run.project, one.run.run_id) for one in written if one.HasField("run")} == {
        ("tried", run.run_id)
    }
