"""What all services of a supervisor share."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from soulsgui.runner.identities import Identities
from soulsgui.runner.policy import RestartLimits
from soulsgui.runner.service import ServiceSpec

logger = logging.getLogger(__name__)

EventLevel = Literal["info", "warning", "error"]
OnEvent = Callable[[EventLevel, str, str, str, str], None]
"""Told (level, what, cause, remedy, service)."""


@dataclass
class Surroundings:
    """What all services of a supervisor share.

    Attributes:
        identities: Records of the processes.
        limits: How patient to be with failures.
        tell: Receives events.
        rng: Source of jitter.
        server_up: Whether the Redis server answers and takes writes; else nobody's tick can be seen.
    """

    identities: Identities
    limits: RestartLimits
    tell: OnEvent
    rng: random.Random
    server_up: bool = True

    def announce(self, spec: ServiceSpec) -> str:
        """Write down that a service is about to be started; return what its process is known by."""
        try:
            return self.identities.announce(spec.name, spec.argv, spec.binding)
        except OSError as error:
            logger.error("%s can't be announced before its start: %s", spec.name, error)
            return ""

    def record(self, spec: ServiceSpec, pid: int) -> None:
        """Write down which process a service is."""
        try:
            self.identities.write(spec.name, spec.argv, pid, spec.binding)
        except OSError as error:
            logger.error("%s can't be recorded; a later runner won't find it: %s", spec.name, error)
