"""What the processes of a run, and the computer they share, use: a row of the curves now and then."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import psutil

from soulsgui.wire.control import ServiceStatus
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.messages.metrics import RESOURCE_PREFIX

logger = logging.getLogger(__name__)


class ResourceMeter:
    """Measures; rates are those since the last time."""

    def __init__(self) -> None:
        self._counted: tuple[float, dict[str, int]] | None = None
        self._gpus = _gpus()
        psutil.cpu_percent(None)  # from now on

    def measure(self, services: Iterable[ServiceStatus], now: float) -> dict[str, float]:
        """Return what is used, by name: each service (clients of ours together), the machine, its GPUs."""
        used: defaultdict[str, float] = defaultdict(float)
        for one in services:
            name = "clients" if one.kind == CLIENT else one.name.replace("-", "_")
            for what, value in (("cpu_percent", one.cpu_percent), ("memory_bytes", one.memory_bytes)):
                if value is not None:
                    used[f"{name}_{what}"] += value
        used["machine_cpu_percent"] = psutil.cpu_percent(None)
        used["machine_memory_bytes"] = psutil.virtual_memory().used
        counted = _counters()
        if self._counted is not None and now > self._counted[0]:
            since, before = self._counted
            for name in counted.keys() & before.keys():
                # Less than before: a device is gone, or its counter began anew.
                used[f"{name}_per_s"] = max(counted[name] - before[name], 0) / (now - since)
        self._counted = now, counted
        used |= self._gpus()
        return {RESOURCE_PREFIX + name: round(float(value), 3) for name, value in used.items()}


def _counters() -> dict[str, int]:
    found: dict[str, int] = {}
    network: Any = psutil.net_io_counters()
    disk: Any = psutil.disk_io_counters()
    if network is not None:
        found |= {"network_received_bytes": network.bytes_recv, "network_sent_bytes": network.bytes_sent}
    if disk is not None:  # none in some containers
        found |= {"disk_read_bytes": disk.read_bytes, "disk_written_bytes": disk.write_bytes}
    return found


def _gpus() -> Callable[[], dict[str, float]]:
    """Return what measures the GPUs of NVIDIA; where there are none, or pynvml is not installed, nothing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
    except Exception as error:
        logger.debug("no GPU is measured: %r", error)
        return dict

    def measure() -> dict[str, float]:
        found: dict[str, float] = {}
        for number, handle in enumerate(handles):
            try:
                found[f"gpu_{number}_percent"] = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
                found[f"gpu_{number}_memory_bytes"] = pynvml.nvmlDeviceGetMemoryInfo(handle).used
            except pynvml.NVMLError as error:
                logger.debug("GPU %d can't be measured: %s", number, error)
        return found

    return measure
