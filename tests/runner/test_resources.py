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
