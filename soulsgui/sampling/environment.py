"""The environments a client plays: made, watched, closed, and made anew when they failed."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from soulsgui.config.metrics import info_keys, read_metrics
from soulsgui.environments.make import BROKEN, make_vector, named
from soulsgui.environments.pictures import shown_kwargs
from soulsgui.environments.spaces import SpacesSpec, spaces_words
from soulsgui.errors import EnvironmentCheckError, ProcessFault
from soulsgui.sampling.watchdog import EnvironmentLimits, Watchdog, WatchedStepper, fault_of
from soulsgui.sampling.workers import SpreadStepper
from soulsgui.wire.messages.server_config import contract_hash

Playable = WatchedStepper | SpreadStepper
"""Environments in this process, or spread over others."""

_LATER_S = 5.0

logger = logging.getLogger(__name__)

Hook = TypeVar("Hook", bound=Callable[[], object])
_MARK = "soulsgui_restart_hook"


def restart_hook(function: Hook) -> Hook:
    """Mark a function as one that `client.restart_hook` may name: no other is called.

    Args:
        function: Takes no arguments; starts a game anew, for instance.

    Returns:
        The function itself.
    """
    setattr(function, _MARK, True)
    return function


def _find_hook(path: str) -> Callable[[], object]:
    hook = named(path, "client.restart_hook")
    # A mock, say, has every attribute that it is asked for.
    if getattr(hook, _MARK, None) is not True:
        raise EnvironmentCheckError(
            f"{path} is not marked as a hook, so it is not called.",
            "Put @soulsgui.sampling.restart_hook in front of it, if it is meant for client.restart_hook.",
        )
    return hook


class Environment:
    """The environments of one run, in one vector, under their watchdog.

    None takes the run's setting (`num_envs`, `workers`), or asks the environments (`masked`); 0 workers step
    them in this process. `on_hang` is called in another thread when only the end of the process helps.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        num_envs: int | None,
        on_hang: Callable[[ProcessFault], None],
        workers: int | None = None,
        masked: bool | None = None,
    ) -> None:
        self.id: str = settings["env.id"]
        self.num_envs = num_envs or int(settings["env.num_envs"])
        self._named = self.id, settings["env.kwargs"], settings["env.wrappers"]
        to_show = shown_kwargs(self.id, settings["env.kwargs"]) if settings.get("client.shown") else None
        self.can_be_shown = to_show is not None
        self._made_of = self.id, to_show or settings["env.kwargs"], settings["env.wrappers"]
        self.metrics = read_metrics(settings.get("telemetry.metrics", {}))
        self._restart_hook = str(settings.get("client.restart_hook", ""))
        self._open: Playable | None = None
        self._workers = int(settings.get("client.workers", 0)) if workers is None else workers
        # A server that names no limits sets none.
        self._limits = EnvironmentLimits(
            float(settings.get("client.hang_seconds", math.inf)),
            float(settings.get("client.min_steps_per_s", 0.0)),
            settings.get("client.max_memory"),
        )
        self._on_hang = on_hang
        # Workers look after themselves: here they are only looked at in case that they don't.
        hang_s = self._limits.hang_s + _LATER_S if self._workers else self._limits.hang_s
        self.watchdog = Watchdog(replace(self._limits, hang_s=hang_s), self._hung)
        self.watchdog.start()
        try:
            if self._restart_hook:
                # Looked up before it is needed in the middle of the night.
                _find_hook(self._restart_hook)
            self.stepper = self._make()
            if masked is None:
                self.stepper.reset()  # tells whether there are masks
                masked = self.stepper.mask is not None
            self._masked = masked
        except BaseException:
            self.close()
            raise
        logger.info("%s shows %s and takes %s", self.id, *spaces_words(self.spaces))

    @property
    def spaces(self) -> SpacesSpec:
        """What one of them shows and takes."""
        return self._spaces.with_masks(self._masked)

    def contract(self, family: str, state: Mapping[str, Sequence[int]]) -> str:
        """Return the contract hash of what is played here."""
        return contract_hash(*self._named, self.spaces.to_json(), family, state)

    def make_anew(self) -> Playable:
        """Make the environments anew, after what `client.restart_hook` names."""
        self.close_vector()
        if self._restart_hook:
            logger.info("calling %s", self._restart_hook)
            with self.watchdog.inside(f"the hook {self._restart_hook}"):
                try:
                    _find_hook(self._restart_hook)()
                except EnvironmentCheckError:
                    raise
                except BROKEN as error:
                    raise fault_of(error, f"its hook {self._restart_hook}") from error
        return self._make()

    def _make(self) -> Playable:
        began = time.monotonic()
        with self.watchdog.inside("being made"):
            self.stepper = self._spread() if self._workers else self._here()
        where = f" in {self._workers} processes" if self._workers else ""
        logger.info("%s × %d made%s in %.1f s", self.id, self.num_envs, where, time.monotonic() - began)
        return self.stepper

    def _here(self) -> WatchedStepper:
        vector = make_vector(*self._made_of, self.num_envs)
        self._open = made = WatchedStepper(vector, self.watchdog, info_keys(self.metrics))
        self._spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
        return made

    def _spread(self) -> SpreadStepper:
        made = SpreadStepper(
            self._made_of,
            self.num_envs,
            self._workers,
            self.watchdog,
            self._limits.hang_s,
            info_keys(self.metrics),
        )
        # Before they are there: the watchdog is to reach those that hang while they are made.
        self._open = made
        made.open()
        self._spaces = made.spaces
        return made

    def _hung(self, fault: ProcessFault) -> None:
        """End workers that hang; without workers only the end of this process helps."""
        made = self._open
        if isinstance(made, SpreadStepper):
            made.kill()
        else:
            self._on_hang(fault)

    def close_vector(self) -> None:
        """Close the environments, as far as they let themselves be closed."""
        made = self._open
        if made is None:
            return
        try:
            with self.watchdog.inside("being closed"):
                made.close()
        except BROKEN as error:
            # It is given up anyway; what it holds ends with the process at the latest.
            logger.warning("%s can't be closed: %r", self.id, error)
        finally:
            self._open = None

    def close(self) -> None:
        """Close the environments and let the watchdog go."""
        try:
            self.close_vector()
        finally:
            self.watchdog.close()
