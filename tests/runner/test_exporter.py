"""The exporter as a service of a real runner, asked over HTTP as Prometheus and Grafana ask."""

import asyncio
import http.client
import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import ExporterSettings
from soulsgui.errors import UsageError
from soulsgui.system import free_port
from soulsgui.telemetry.sinks.exporter import run_exporter
from soulsgui.wire.connection import Address
from soulsgui.wire.control import RunStartParams
from tests.faults.waiting import LIMIT_S
from tests.runner.running import ONE_CLIENT, new_runner, opened


def _ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": f"{host}:{port}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except ConnectionError:
        return 0, ""
    finally:
        connection.close()


@pytest.mark.processes
async def test_it_tells_of_server_run_and_clients_and_comes_back(
    folders: Folders, fake_services: None
) -> None:
    port = free_port()
    overrides = ONE_CLIENT | {"exporter.enabled": True, "exporter.port": port}
    async with opened(new_runner(folders, overrides)) as runner:
        await runner.command("run.start", RunStartParams())

        async def values() -> dict[str, float]:
            status, text = await asyncio.to_thread(_ask, port, "/metrics")
            families = text_string_to_metric_families(text) if status == 200 else ()
            return {sample.name: sample.value for family in families for sample in family.samples}

        while (await values()).get("soulsgui_client_env_steps_total", 0.0) <= 0:
            await asyncio.sleep(0.2)
        assert (await values())["soulsgui_up"] == 1
        assert _ask(port, "/metrics", "evil.example")[0] == 403
        assert _ask(port, "/other")[0] == 404
        # Who says nothing keeps nobody out.
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(130)]
        async with asyncio.timeout(LIMIT_S):
            assert await crowd[0][0].read() == b""
        for _, writer in crowd:
            writer.close()
        assert await values()
        pid = runner.supervisor.pid_of("exporter")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while not await values():
            await asyncio.sleep(0.2)
        assert runner.supervisor.pid_of("exporter") != pid


def test_it_answers_at_no_public_address(folders: Folders) -> None:
    for host in ("8.8.8.8", "0.0.0.0", "somewhere"):
        with pytest.raises(UsageError, match="not a private address"):
            run_exporter(folders, ExporterSettings(host=host), Address("127.0.0.1", 1))
