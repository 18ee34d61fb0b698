import sys
from types import SimpleNamespace

import pytest

from soulsgui.runner.resources import ResourceMeter
from soulsgui.wire.control import ServiceStatus


def test_services_machine_and_rates_are_told() -> None:
    meter = ResourceMeter()
    services = [
        ServiceStatus(name="trainer", kind="trainer", state="running", cpu_percent=150.0, memory_bytes=7),
        ServiceStatus(name="client-1", kind="client", state="running", cpu_percent=10.0, memory_bytes=1),
        ServiceStatus(name="client-2", kind="client", state="running", memory_bytes=2),
        ServiceStatus(name="inference-1", kind="inference", state="failed"),
    ]
    first = meter.measure(services, 0.0)
    told = {name: value for name, value in first.items() if "machine" not in name and "gpu" not in name}
    assert told == {
        "resource_trainer_cpu_percent": 150.0,
        "resource_trainer_memory_bytes": 7.0,
        "resource_clients_cpu_percent": 10.0,
        "resource_clients_memory_bytes": 3.0,
    }
    assert first["resource_machine_memory_bytes"] > 1e6
    second = meter.measure(services, 5.0)
    assert second["resource_network_received_bytes_per_s"] >= 0


def test_gpus_are_measured_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    class NVMLError(Exception): ...

    def usage(handle: int) -> SimpleNamespace:
        if handle == 1:
            raise NVMLError("lost")
        return SimpleNamespace(gpu=37)

    fake = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetUtilizationRates=usage,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=5 * 2**30),
        NVMLError=NVMLError,
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    used = ResourceMeter().measure([], 0.0)
    assert {name: value for name, value in used.items() if "gpu" in name} == {
        "resource_gpu_0_percent": 37.0,
        "resource_gpu_0_memory_bytes": 5.0 * 2**30,
    }
