"""The JSON source as Grafana asks it, and the shipped dashboards' own queries."""

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from soulsgui.config.paths import RunFolder, shipped
from soulsgui.telemetry.sinks.grafana import GrafanaSource
from soulsgui.telemetry.sinks.prometheus import Exposition, Seen
from soulsgui.telemetry.sinks.records import Record
from soulsgui.wire.control import ClientStatus, Event, RunStatus, ServiceStatus, Status
from soulsgui.wire.keys import EntryId
from tests.telemetry.helpers import (
    RUN_ID,
    arrivals,
    attempt_row,
    checkpoint_row,
    episode,
    recorder_of,
    update_row,
)

Client = TestClient[web.Request, web.Application]
_DASHBOARDS = shipped("resources", "monitoring", "grafana")


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Client]:
    """The source over two runs: in the newest one 200 episodes, one a second."""
    for name, count in (("2026-01-01_00-00-00_old", 1), (RUN_ID, 200)):
        run = RunFolder(tmp_path / name)
        run.root.mkdir()
        with recorder_of(run.store, window=1) as recorder:
            recorder.record([attempt_row(1), checkpoint_row(3)], [], EntryId(1, 1), 0.0)
            told = "policy_loss value_loss entropy learning_rate collect_s update_s env_steps_per_s"
            recorder.record([update_row(1, **dict.fromkeys(told.split(), 0.5))], [], EntryId(1, 2), 0.0)
            for n in range(count):
                played = arrivals(episode(float(n)), first=n, client="ab"[n % 2])
                recorder.record([], played, EntryId(1, 2), 1000.0 + n)
    happened = [Event(number=1, time=1500.0, level="error", what="<img src=x>\x1b[31m", cause="a & b")]
    app = web.Application()
    GrafanaSource(tmp_path, lambda: happened).add_to(app)
    async with TestClient(TestServer(app)) as client:
        yield client


def _span(start: float, end: float) -> dict[str, str]:
    ends = (datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z") for moment in (start, end))
    return dict(zip(("from", "to"), ends, strict=True))


async def _asked(source: Client, path: str, asked: Any) -> Any:
    answer = await source.post(path, json=asked)
    assert answer.status == 200, await answer.text()
    return await answer.json()


async def _curve(
    source: Client, start: float, end: float, points: int = 5000, **target: Any
) -> list[list[float]]:
    targets = [{"refId": "A", "target": "return"} | target]
    asked = {"range": _span(start, end), "maxDataPoints": points, "targets": targets}
    (curve,) = await _asked(source, "/query", asked)
    return curve["datapoints"]


async def test_a_curve_comes_within_its_span_resampled_and_by_client(source: Client) -> None:
    assert (await source.get("/")).status == 200
    assert await _curve(source, 1100, 1102) == [[100.0, 1100_000], [101.0, 1101_000], [102.0, 1102_000]]
    whole = await _curve(source, 0, 5000, points=50)
    assert 20 <= len(whole) <= 50
    assert whole[0][0] == pytest.approx(2, abs=4)
    assert [value for value, _ in await _curve(source, 1100, 1103, payload={"client": "b"})] == [101.0, 103.0]
    assert await _curve(source, 0, 5000, payload={"run": "2026-01"}) == [[0.0, 1000_000]]
    assert await _curve(source, 0, 5000, payload='{"run": "2026-01"}') == [[0.0, 1000_000]]
    assert await _curve(source, 0, 5000, target="policy_loss") == [[0.5, 101_000]]
    assert await _curve(source, 0, 5000, target="no_such") == []


async def test_it_says_what_there_is_to_choose_from(source: Client, tmp_path: Path) -> None:
    names = await _asked(source, "/search", {"target": ""})
    assert {"return", "length", "policy_loss"} <= set(names)
    (returns, *_) = await _asked(source, "/metrics", {})
    runs, clients = returns["payloads"]
    assert [one["value"] for one in runs["options"]] == ["latest", RUN_ID, "2026-01-01_00-00-00_old"]
    assert [one["value"] for one in clients["options"]] == ["", "a", "b"]
    assert [one["__value"] for one in await _asked(source, "/variable", {})][1] == RUN_ID
    (tmp_path / "2026-01-01_00-00-00_old" / "run.json").write_text('{"number": 2}')  # imported since then
    newest = (await _asked(source, "/variable", {}))[1]
    assert newest["__value"] == "2026-01-01_00-00-00_old", "as in the library"


async def test_what_happened_is_text_without_markup(source: Client) -> None:
    found = await _asked(source, "/annotations", {"range": _span(1400, 1600), "annotation": {"name": "x"}})
    assert found == [
        {"time": 1500_000, "title": "&lt;img src=x&gt;�[31m", "text": "a &amp; b", "tags": ["error"]}
    ]
    every = await _asked(source, "/annotations", {"range": _span(0, 5000)})
    assert [one["tags"][0] for one in every] == ["attempt", "checkpoint", "error"]


_ELSEWHERE = {"target": "x", "payload": {"run": "../.."}}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/query", "not json", 400),
        ("/query", "[" * 10_000, 400),
        ("/query", '{"range": {"from": "yesterday", "to": "today"}, "targets": []}', 400),
        ("/query", json.dumps({"range": _span(0, 1), "targets": [{"target": "return"}] * 51}), 400),
        (
            "/query",
            json.dumps({"range": _span(0, 1), "targets": [{"target": "x", "payload": {"run": "../.."}}]}),
            404,
        ),
        ("/annotations", '{"range": {"from": 1e300, "to": 1e301}}', 400),
        ("/nothing", "{}", 404),
    ],
)
async def test_bad_requests_are_refused(source: Client, path: str, body: str, status: int) -> None:
    answer = await source.post(path, data=body)
    assert answer.status == status
    assert "pydantic" not in await answer.text()


async def test_every_query_of_the_json_dashboard_finds_something(source: Client) -> None:
    dashboard = json.loads((_DASHBOARDS / "soulsgui-json.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    asked = [target | {"payload": target["payload"] | {"run": "latest"}} for target in targets]
    found = await _asked(source, "/query", {"range": _span(0, 5000), "targets": asked})
    assert {one["target"] for one in found if not one["datapoints"]} == {"evaluation_return"}  # none was made
    assert len(found) == len(targets)


def test_every_query_of_the_other_dashboard_asks_for_what_is_there() -> None:
    client = ClientStatus(id="a", name="a", lag=1, rejected={"late": 1})
    numbers = {"mean_return": 1.0, "best_mean_return": 1.0, "evaluation_return": 1.0, "learner_waits": 0.1}
    run = RunStatus(**numbers, clients_wait=0.1, rejected={"late": 1})
    service = ServiceStatus(name="x", kind="y", state="running", cpu_percent=1.0, memory_bytes=1)
    exposition = Exposition()
    exposition.take([Record("update", 1.0, {"update_s": 0.2, "loss": 1.0})])
    text = exposition.text(Seen(Status(run=run, clients=[client], services=[service]), {}, {})).decode()
    told = set(re.findall(r"^(soulsgui_\w+)", text, re.MULTILINE))
    dashboard = (_DASHBOARDS / "soulsgui-prometheus.json").read_text(encoding="utf-8")
    expressions = [one["expr"] for panel in json.loads(dashboard)["panels"] for one in panel["targets"]]
    assert {name for one in expressions for name in re.findall(r"soulsgui_\w+", one)} <= told
