"""The client process: plays for whatever run the server has, until it is told to stop."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from redis.exceptions import NoPermissionError

from soulsgui.environments.imports import restrict_imports
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ClientRegistrationError, NotAgreedError, ProcessFault, SoulsGuiError
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.environment import Environment
from soulsgui.sampling.heartbeat import ServerLogHandler
from soulsgui.sampling.link import ClientLink, checked_config
from soulsgui.sampling.owner_link import Plan, Stepping
from soulsgui.sampling.player import RunPlayer
from soulsgui.sampling.progress import made_words
from soulsgui.sampling.remote import RemotePolicy
from soulsgui.system import kill_descendants
from soulsgui.wire.connection import Address, Stopped
from soulsgui.wire.messages.owner import LOOK_EVERY_S, Agreement, ClientFolder, read_agreement
from soulsgui.wire.messages.server_config import (
    TOO_LONG,
    Execution,
    ServerConfig,
    family_of,
    state_of,
)

logger = logging.getLogger(__name__)

_LAST_WORDS_S = 5.0
_HOW_TO_AGREE = "Agree in the window or by `soulsgui join agree`; `soulsgui client` asks when it starts"
_MOST_ENVS_PER_CORE = 64
_ASKS = "Its owner is asked whether what this server wants to run may run there."


@dataclass(frozen=True)
class ClientOptions:
    """What one client is told where it starts; None leaves it to the server's configuration.

    Attributes:
        num_envs: Environments side by side.
        episodes: After how many it ends; None: it plays on.
        workers: Processes of its environments.
        inference: Who has the policy: `local`, or (an inference) `server`.
        agreement: The file that says what the server may run here; None: anything.
        shows_game: With an agreement, whether the server may look at the game: its settings have no say.
        making: The context that environments are made in; its argument is set when the client is to stop.
        make_policy: Makes the policy that a server describes.
    """

    num_envs: int | None = None
    episodes: int | None = None
    workers: int | None = None
    inference: str | None = None
    agreement: Path | None = None
    shows_game: bool = False
    making: Callable[[threading.Event], AbstractContextManager[object]] = nullcontext
    make_policy: Callable[[Mapping[str, Any]], Policy] = make_policy


def within_means(settings: Mapping[str, Any], memory: int, cores: int) -> dict[str, Any]:
    """Return a server's settings with no more memory, processes and environments than a computer spares."""
    half = memory // 2
    asked = settings["client.max_memory"]
    return dict(settings) | {
        "client.max_memory": half if asked is None else min(asked, half),
        "client.buffer_bytes": min(settings["client.buffer_bytes"], half // 4),
        "client.workers": min(settings["client.workers"], cores),
        "env.num_envs": min(settings["env.num_envs"], _MOST_ENVS_PER_CORE * cores),
    }


def _agreement(path: Path) -> Agreement:
    with suppress(OSError):  # it is just being replaced
        return read_agreement(path)
    return Agreement()


def run_client(
    address: Address,
    name: str,
    options: ClientOptions,
    owner: ClientFolder | None = None,
    start_anew: Callable[[], None] | None = None,
) -> int:
    """Run a client until it is told to stop; return its exit code.

    When only a new process helps, `start_anew` replaces this one; where it is None, the fault is raised to
    whoever supervises this one.
    """
    setup_logging()
    stop = stop_on_signals()
    lines = ServerLogHandler(address.password)
    logging.getLogger().addHandler(lines)
    link = ClientLink(address, name, options.num_envs or 1, stop, owner, lines)
    logger.info("%s joins the server at %s:%d", name, address.host, address.port)
    client = Client(link, stop, options, partial(_end_hanging, link, stop, start_anew))
    try:
        _run_linked(client, link)
    except ProcessFault:
        if start_anew is None:
            raise
        start_anew()
    finally:
        logging.getLogger().removeHandler(lines)
    return 0


def _run_linked(client: "Client", link: ClientLink) -> None:
    """Play while the link to the server is open; close it and report the end in any case."""
    try:
        link.open()
        client.run()
        link.farewell = link.farewell or "asked to stop"
    except ProcessFault as fault:
        link.failed(fault)
        raise
    except NoPermissionError as error:
        raise ClientRegistrationError(
            f"The server lets this client in, but not to its keys: {error}.",
            "Its settings have changed since this computer was invited: ask its owner for a new invitation.",
        ) from error
    except SoulsGuiError as error:
        link.progress.error = error.message
        raise
    except Stopped:
        link.farewell = "asked to stop while it waited"
        logger.info("stopped while it waited for the server, or to make its environments")
    finally:
        link.close()
        if link.farewell or link.progress.env_steps:
            why = f": {link.farewell}" if link.farewell else ""
            logger.info("left after %s%s", made_words(link.progress), why)


def _end_hanging(
    link: ClientLink, stop: threading.Event, start_anew: Callable[[], None] | None, fault: ProcessFault
) -> None:
    """End this process, whose main thread hangs, after telling why; called in another thread."""
    link.failed(fault)
    # What is on its way gets there, unless that hangs as well.
    closing = threading.Thread(target=link.close, name="last words", daemon=True)
    closing.start()
    closing.join(_LAST_WORDS_S)
    kill_descendants()
    logging.shutdown()
    code = 1
    try:
        if start_anew is not None and not stop.is_set():
            start_anew()
    except SystemExit as end:
        # On Windows the new process is a child, whose end is ours; here it would end this thread alone.
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


class Client:
    """Plays run after run."""

    def __init__(
        self,
        link: ClientLink,
        stop: threading.Event,
        options: ClientOptions,
        on_hang: Callable[[ProcessFault], None],
    ) -> None:
        self._link, self._stop, self._options, self._on_hang = link, stop, options, on_hang
        self._episodes_left = options.episodes
        self._run_id = ""

    def run(self) -> None:
        """Wait for runs and play them."""
        while (config := self._next_run()) is not None:
            self._run_id = config.run_id
            self._play(config)
            self._link.leave_run()

    def _next_run(self) -> ServerConfig | None:
        """Wait for another run; return None when it is time to go."""
        told = False
        while not self._stop.is_set():
            plan, config = self._link.plan, self._link.view.config
            self._link.obey(plan, "waiting")
            if plan.stepping is Stepping.FREE and config is not None and config.run_id != self._run_id:
                return config
            if not told:
                logger.info("waiting for a run")
            told = True
            self._link.wait(partial(self._something_new, plan, config))
        return None

    def _something_new(self, plan: Plan, config: ServerConfig | None, view: ServerView) -> bool:
        return self._link.plan != plan or view.config != config or self._link.unanswered

    def _play(self, announced: ServerConfig) -> None:
        with self._link.checked("version"):
            config = checked_config(announced, self._link.progress)
        logging.getLogger().setLevel(config.settings["logging.level"].upper())
        if not self._wait_for_agreement(announced, Execution.of(config.settings)):
            return
        config = self._bounded(config)
        with ExitStack() as closing:
            remote = self._remote_policy(config)
            self._link.take_weights(remote is None)
            if remote is not None:
                closing.callback(remote.close)
            environment = self._environment(config)
            closing.callback(environment.close)
            progress = self._link.progress
            progress.env_id, progress.num_envs = environment.id, environment.num_envs
            progress.shown = environment.can_be_shown
            known = config if config.spaces else self._tell_spaces(config, environment)
            if known is None:
                return
            try:
                # Its outputs are checked when there are weights.
                policy = self._options.make_policy(known.policy) if remote is None else remote
            except SoulsGuiError:
                progress.checks["network"] = False
                raise
            with self._link.checked("environment"):
                player = RunPlayer(self._link, self._stop, known, environment, policy, self._count_episode)
            player.play()

    def _wait_for_agreement(self, announced: ServerConfig, execution: Execution) -> bool:
        """Wait until the owner of this computer agrees to what a run executes; restrict this process to it.

        Returns False when it is time to go, or to look at what is wanted instead.
        """
        path, link, asked = self._options.agreement, self._link, False
        if path is None:
            return True
        while not (agreement := _agreement(path)).covers(execution):
            if execution.too_long:
                remedy = "Nobody can agree to that: tell the owner of the server, or forget the server."
                raise NotAgreedError(TOO_LONG, remedy)
            if not asked:
                told = execution.sentence
                logger.warning("the server wants to run something new here: %s. %s", told, _HOW_TO_AGREE)
            asked, link.progress.asks, link.progress.error = True, execution, _ASKS
            plan, now = link.plan, link.view.config
            if self._stop.is_set() or now != announced:
                break
            link.obey(plan, "waiting")
            link.wait(partial(self._something_new, plan, now), LOOK_EVERY_S)
        if asked:
            link.progress.asks, link.progress.error = None, ""
        free = link.plan.stepping is Stepping.FREE and not self._stop.is_set()
        if not (free and agreement.covers(execution) and link.view.config == announced):
            self._run_id = ""  # it is looked at again
            return False
        restrict_imports(None if agreement.always else execution.names)
        return True

    def _bounded(self, config: ServerConfig) -> ServerConfig:
        """Return a run that takes no more than the owner of an invited computer can spare."""
        if self._options.agreement is None:
            return config
        settings = within_means(config.settings, psutil.virtual_memory().total, os.cpu_count() or 1)
        settings["client.shown"] = self._options.shows_game
        return config.model_copy(update={"settings": settings})

    def _environment(self, config: ServerConfig) -> Environment:
        options = self._options
        with self._link.checked("environment"), options.making(self._stop):
            # Whether its environments tell the same is seen at their first reset.
            masked = SpacesSpec.from_json(config.spaces).action.masked if config.spaces else None
            return Environment(config.settings, options.num_envs, self._on_hang, options.workers, masked)

    def _remote_policy(self, config: ServerConfig) -> RemotePolicy | None:
        """Return what asks the inference server of a run; None where this client has a policy itself."""
        served = config.settings["inference"] == "server"
        if (self._options.inference or config.settings["inference"]) == "local":
            return None
        if not served:
            raise ClientRegistrationError(
                "This run has no inference server.",
                "Start this client without --inference server, or the run with inference=server.",
            )
        return RemotePolicy(self._link.address, self._link, self._stop)

    def _tell_spaces(self, config: ServerConfig, environment: Environment) -> ServerConfig | None:
        """Tell a server that can't make the environment its spaces; return the run as it describes it then.

        Returns None when it is time to go, or to play another one.
        """
        link, settings = self._link, config.settings
        contract = environment.contract(family_of(settings["algorithm"]), state_of(config.policy))
        spaces = environment.spaces.to_json()
        logger.info("the server does not know the spaces of %s: it is told", environment.id)
        link.enter(config, contract, int(settings["client.buffer_bytes"]), spaces=spaces)
        while not self._stop.is_set():
            plan, now = link.plan, link.view.config
            if now is not None and (now.spaces or now.run_id != config.run_id):
                known = checked_config(now, link.progress) if now.run_id == config.run_id else None
                return known and self._bounded(known)
            link.obey(plan, "waiting")
            link.wait(partial(self._something_new, plan, now))
        return None

    def _count_episode(self) -> None:
        if self._episodes_left is not None:
            self._episodes_left -= 1
            if self._episodes_left <= 0:
                self._link.farewell = "has played its episodes"
                self._stop.set()
