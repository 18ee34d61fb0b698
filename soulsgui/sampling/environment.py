"""The environments a client plays: made, watched, closed, and made anew when they failed."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from soulsgui.environments.make import Vector, make_vector, named
from soulsgui.environments.report_words import spaces_words
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, ProcessFault
from soulsgui.sampling.watchdog import Limits, Watchdog
from soulsgui.sampling.watched import BROKEN, WatchedStepper, fault_of
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
        self._restart_hook = str(settings.get("client.restart_hook", ""))
        self._vector: Vector | None = None
        self.watchdog = Watchdog(limits_of(settings), on_hang)
        self.watchdog.start()
        try:
            self._check_hook()
            self.stepper = self._make()
            made = self.stepper.vector_env
            self.spaces = SpacesSpec.from_env(made.single_observation_space, made.single_action_space)
        except BaseException:
            self.close()
            raise
        logger.info("%s shows %s and takes %s", self.id, *spaces_words(self.spaces))

    def contract(self, family: str) -> str:
        """Return the contract hash of what is played here, for a family of algorithms."""
        return contract_hash(*self._made_of, self.spaces.to_json(), family)

    def make_anew(self) -> WatchedStepper:
        """Make the environments anew, after what `client.restart_hook` names.

        Raises:
            EnvironmentCheckError: They can't be made.
            EnvironmentFault: The hook raised.
            ProcessFault: The process is too large by now.
        """
        self.close_vector()
        if self._restart_hook:
            logger.info("calling %s", self._restart_hook)
            with self.watchdog.inside(f"the hook {self._restart_hook}"):
                try:
                    named(self._restart_hook, "client.restart_hook")()
                except EnvironmentCheckError:
                    raise
                except BROKEN as error:
                    raise fault_of(error, f"its hook {self._restart_hook}") from error
        return self._make()

    def _check_hook(self) -> None:
        """Look the hook up before it is needed in the middle of the night.

        Raises:
            EnvironmentCheckError: There is none of that name here.
        """
        if self._restart_hook:
            named(self._restart_hook, "client.restart_hook")

    def _make(self) -> WatchedStepper:
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
