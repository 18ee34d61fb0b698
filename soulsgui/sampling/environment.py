"""The environments a client plays: made, watched, closed, and made anew when they failed."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from soulsgui.environments.make import Vector, make_vector
from soulsgui.environments.report_words import spaces_words
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ProcessFault
from soulsgui.sampling.watchdog import Limits, Watchdog
from soulsgui.sampling.watched import BROKEN, WatchedStepper
from soulsgui.wire.messages.server_config import contract_hash

logger = logging.getLogger(__name__)


def limits_of(settings: Mapping[str, Any]) -> Limits:
    """Return what a server's settings allow an environment; one that names no limits sets none."""
    return Limits(
        float(settings.get("client.hang_seconds", math.inf)),
        float(settings.get("client.min_steps_per_s", 0.0)),
        settings.get("client.max_memory"),
    )


class Environment:
    """The environments of one run, in one vector, under their watchdog.

    Args:
        settings: The server's settings, by dotted key.
        num_envs: Environments side by side; None takes the run's setting.
        on_hang: Called in another thread when the environment hangs: only the end of the process helps.

    Attributes:
        id: Id of the environment.
        num_envs: Environments side by side.
        spaces: What one of them shows and takes.
        stepper: The environments in use.
        watchdog: Looks after them.

    Raises:
        EnvironmentCheckError: It can't be made here, or its spaces are not supported.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        num_envs: int | None,
        on_hang: Callable[[ProcessFault], None],
    ) -> None:
        self.id: str = settings["env.id"]
        self.num_envs = num_envs or int(settings["env.num_envs"])
        self._made_of = self.id, settings["env.kwargs"], settings["env.wrappers"]
        self._vector: Vector | None = None
        self.watchdog = Watchdog(limits_of(settings), on_hang)
        self.watchdog.start()
        try:
            self.stepper = self.make()
            made = self.stepper.vector_env
            self.spaces = SpacesSpec.from_env(made.single_observation_space, made.single_action_space)
        except BaseException:
            self.close()
            raise
        logger.info("%s shows %s and takes %s", self.id, *spaces_words(self.spaces))

    def contract(self, family: str) -> str:
        """Return the contract hash of what is played here, for a family of algorithms."""
        return contract_hash(*self._made_of, self.spaces.to_json(), family)

    def make(self) -> WatchedStepper:
        """Make the environments, anew if there were others.

        Raises:
            EnvironmentCheckError: They can't be made.
            ProcessFault: The process is too large by now.
        """
        self.close_vector()
        began = time.monotonic()
        with self.watchdog.inside("being made"):
            self._vector = vector = make_vector(*self._made_of, self.num_envs)
            self.stepper = WatchedStepper(vector, self.watchdog)
        logger.info("%s × %d made in %.1f s", self.id, self.num_envs, time.monotonic() - began)
        return self.stepper

    def close_vector(self) -> None:
        """Close the environments, as far as they let themselves be closed."""
        vector, self._vector = self._vector, None
        if vector is None:
            return
        try:
            with self.watchdog.inside("being closed"):
                vector.close()
        except BROKEN as error:
            # It is given up anyway; what it holds ends with the process at the latest.
            logger.warning("%s can't be closed: %r", self.id, error)

    def close(self) -> None:
        """Close the environments and let the watchdog go."""
        try:
            self.close_vector()
        finally:
            self.watchdog.close()
