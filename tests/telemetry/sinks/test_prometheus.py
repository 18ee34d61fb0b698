"""What Prometheus reads, as its own parser and its own checker understand it."""

import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from soulsgui.telemetry.sinks.prometheus import MOST_CLIENTS, Exposition, Seen
from soulsgui.telemetry.sinks.records import Record
from soulsgui.wire.control import ClientStatus, RunStatus, ServiceStatus, Status
from soulsgui.wire.messages.heartbeat import InferenceFigures
from soulsgui.wire.messages.node import Staleness

_HOSTILE = 'evil"} 1\nsoulsgui_up 7 \x1b[31m\\'


def _samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def _of(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def _status() -> Status:
    figures = InferenceFigures(rows=[1] * 11, round_trips=[2] * 14)
    clients = [
        ClientStatus(id=f"pc-{n:04}", name=_HOSTILE, state="online", env_steps=n, rejected={"late": 1})
        for n in range(MOST_CLIENTS + 200)
    ]
    clients += [
        ClientStatus(id="inference-1", name="inference-1", state="online", inference=figures),
        ClientStatus(id="gone", name="gone", state="lost", env_steps=9),
    ]
    run = RunStatus(
        id="2026", name=_HOSTILE, state="running", env_steps=640, mean_return=1e308,
        rejected={_HOSTILE: 3}, staleness=Staleness(accepted=[5, 2, *[0] * 14, 1]),
    )  # fmt: skip
    return Status(run=run, clients=clients, services=[ServiceStatus(name="x", kind="y", state="running")])


def test_text_of_others_stays_a_label_and_series_are_bounded() -> None:
    text = Exposition().text(Seen(_status(), {"pc-0001": 4}, {"update": 0.5}))
    found = _samples(text)
    assert _of(found, "soulsgui_up") == 1
    assert "\x1b" not in text.decode()
    assert sum(name == "soulsgui_client_up" for name, _ in found) == MOST_CLIENTS
    assert _of(found, "soulsgui_clients_without_series") == 202
    assert _of(found, "soulsgui_clients", state="online") == MOST_CLIENTS + 201
    assert _of(found, "soulsgui_client_queue_entries", client="pc-0001") == 4
    assert _of(found, "soulsgui_client_segments_rejected_total", client="pc-0001", reason="late") == 1
    assert ("soulsgui_client_up", frozenset({("client", "gone")})) not in found
    assert _of(found, "soulsgui_mean_return") == 1e308
    buckets = [_of(found, "soulsgui_sample_staleness_updates_bucket", le=le) for le in ("0", "1", "+Inf")]
    assert buckets == [5, 7, 8]
    assert _of(found, "soulsgui_inference_round_trip_seconds_count", client="inference-1") == 28
    assert _of(found, "soulsai_num_samples_total") == 640
    assert _of(found, "soulsai_update_time") == 0.5


def test_what_is_recorded_is_counted_and_told_last() -> None:
    exposition = Exposition()
    played = {"return": 1.0, "length": 40.0, "seconds": 0.3, "mean_return": 1.0}
    exposition.take([Record("episode", 1.0, played)] * 3)
    exposition.take(
        [Record("update", 1.0, {"update_s": 0.2, "loss": loss, "env_steps_per_s": 5.0}) for loss in (1, 2)]
    )
    found = _samples(exposition.text(Seen(None, {}, {})))
    assert _of(found, "soulsgui_up") == 0
    assert _of(found, "soulsgui_episode_length_steps_count") == 3
    assert _of(found, "soulsgui_update_phase_seconds_bucket", phase="update", le="0.25") == 2
    assert _of(found, "soulsgui_update_value", metric="loss") == 2
    assert _of(found, "soulsgui_update_value", metric="env_steps_per_s") == 5


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed here")
def test_promtool_finds_nothing_to_say_against_it() -> None:
    text = Exposition().text(Seen(_status(), {}, {"update": 0.5, "publish": 0.1}))
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
