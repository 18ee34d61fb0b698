"""A client's tie to a server: one heartbeat, one downloader, and an uploader per run."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from soulsgui.config.schema import received_settings
from soulsgui.environments.observations import ObservationSpec
from soulsgui.environments.spaces import reference_observation, same_outputs
from soulsgui.errors import ClientRegistrationError, ProcessFault, SoulsGuiError
from soulsgui.policies.policy import Policy
from soulsgui.sampling.downloader import WHEN_AWAY, Downloader, ServerView
from soulsgui.sampling.heartbeat import (
    HeartbeatThread,
    ServerLogHandler,
    ensure_name_is_free,
    other_name_remedy,
    own_versions,
)
from soulsgui.sampling.owner_link import OwnerLink, Plan, Stepping, plan_of
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.beats import own_instance
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.connection import Address, Link
from soulsgui.wire.keys import PROTOCOL, EntryId, Keys, check_client_name
from soulsgui.wire.messages.heartbeat import Answer, Phase
from soulsgui.wire.messages.owner import ClientFolder, ClientReport
from soulsgui.wire.messages.server_config import ServerConfig, state_of
from soulsgui.wire.messages.session import Grant, RoundShare, Wish
from soulsgui.wire.versions import installed_versions, lacks_here, least_versions, update_needed

logger = logging.getLogger(__name__)

_OF_ROUNDS = ("sampling", "waiting")


@dataclass(frozen=True)
class ReadyRound:
    """A round that can be played: this client's part of it, and the weights to play with."""

    share: RoundShare
    header: WeightsHeader
    tensors: dict[str, NDArray[Any]]


def checked_config(config: ServerConfig, progress: Progress) -> ServerConfig:
    """Return a run as a server describes it, with settings that are what they should be.

    What is installed here, and what the server needs beside it, is noted in `progress`.
    """
    least = least_versions(config.settings)
    progress.lacks = lacks_here(config.protocol_min, config.protocol_max, least)
    if not config.protocol_min <= PROTOCOL <= config.protocol_max:
        raise ClientRegistrationError(
            f"The server speaks protocol {config.protocol_min} to {config.protocol_max}, "
            f"this client {PROTOCOL}.",
            "Install the same version of SoulsGUI on both.",
        )
    progress.versions = progress.versions | installed_versions(least)
    old = update_needed(progress.versions, least)
    if old:
        packages = " ".join(f'"{package}>={version}"' for package, version in least.items())
        raise ClientRegistrationError(
            f"This client is too old for the server: {old}.", f"Update it here: pip install -U {packages}"
        )
    try:
        state_of(config.policy)
    except ValueError as error:
        raise ClientRegistrationError(
            f"The server's policy can't be used: {error}.", "Install the same version of SoulsGUI on both."
        ) from error
    return config.model_copy(update={"settings": received_settings(config.settings)})


class ClientLink:
    """Everything a client process shares with the server."""

    def __init__(
        self,
        address: Address,
        client: str,
        num_envs: int,
        stop: threading.Event,
        owner: ClientFolder | None = None,
        lines: ServerLogHandler | None = None,
    ) -> None:
        name, keeps = check_client_name(client), owner is not None
        self.progress = Progress(name, own_instance(), num_envs, own_versions(), keeps_episodes=keeps)
        self.address = address
        self._stop = stop
        self.view = ServerView()  # what the server says now
        # The newest view that asked for an evaluation and had its weights: newer ones may have come since.
        self.asked: ServerView | None = None
        self._changed = threading.Condition()
        self._uploader: Uploader | None = None
        self._entered: ServerConfig | None = None  # the run that it sends samples of
        self._opened = False
        self.farewell = ""
        self._owner = OwnerLink(owner, self._report, self._plan_anew) if owner is not None else None
        self.plan = Plan()
        self._heartbeat = HeartbeatThread(address, self.progress, lines)
        self._downloader = Downloader(address, client, self._take, self._server_returned)

    def open(self) -> None:
        """Make sure that the name is free, then begin to beat and to listen."""
        if self._owner is not None:
            self._owner.start()
            self._plan_anew()
        progress, keys, user = self.progress, Keys(self.address.prefix), self.address.user
        client, own = progress.client, progress.instance
        link = Link(self.address, self._stop, client, WHEN_AWAY)
        try:
            before = link.run(lambda redis: ensure_name_is_free(redis, keys, client, own, self._stop, user))
        finally:
            link.close()
        if before is not None and before.phase == "restarting":
            progress.goes_on_after(before)
        self._opened = True
        self._heartbeat.start()
        self._downloader.start()

    def take_weights(self, wanted: bool) -> None:
        """Download the weights of the run, or none where an inference server has them."""
        self._downloader.takes_weights, self.progress.remote = wanted, not wanted

    @property
    def wish(self) -> Wish:
        """What the runner wants."""
        return self.view.wish or Wish(command_id="")

    def wait(self, ready: Callable[[ServerView], bool], timeout_s: float | None = None) -> bool:
        """Wait until the view is as wanted; return False on stop or timeout (None: no timeout)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while not ready(self.view):
                left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
                if self._stop.is_set() or left <= 0:
                    return False
                self._changed.wait(left)  # signals only set the event: look at it now and then
        return True

    def enter(
        self,
        config: ServerConfig,
        contract: str,
        buffer_bytes: int,
        drops: bool = False,
        spaces: dict[str, Any] | None = None,
    ) -> Uploader:
        """Begin a session in a run.

        With `drops` the oldest samples are dropped while the server takes no more; `spaces` are told to a
        server that does not know them.
        """
        self.leave_run()
        self.asked = None
        self.progress.begin_run(config.run_id)
        self.progress.end_session()
        uploader = Uploader(
            self.address, self.progress, contract, buffer_bytes, self._heartbeat.soon, drops, spaces
        )
        with self._changed:  # no view may come in between and be overtaken by an older one
            self._uploader, self._entered = uploader, config
            uploader.granted(self.view.grant)
        uploader.start()
        return uploader

    def answer_of_trainer(self, view: ServerView) -> Grant | None:
        """Return the grant of the present session as a view has it, None while there is none."""
        if self._uploader is not None and self._uploader.failure is not None:
            raise self._uploader.failure
        grant, session = view.grant, self.progress.session
        if grant is None or not session or self.progress.was_in(grant.session):
            return None
        if grant.session != session:
            if EntryId.parse(grant.session) > EntryId.parse(session):
                raise ClientRegistrationError(
                    f"Another process took over the name {self.progress.client}.",
                    other_name_remedy(self.address.user),
                )
            return None
        if grant.status == "refused":
            raise ClientRegistrationError(f"The server refused this client: {grant.reason}", "")
        return grant

    def ready_round(self, view: ServerView, last_round: int) -> ReadyRound | None:
        """Return the part of another round than the last one with its weights, once both are here."""
        grant = self.answer_of_trainer(view)
        if grant is None or grant.round is None or view.header is None or view.tensors is None:
            return None
        share = grant.round
        # Not "later than the last": a server that lost its newest second begins again a little earlier.
        if share.round_id == last_round or share.round_id != view.header.model_id:
            return None
        return ReadyRound(share, view.header, view.tensors)

    def set_phase(self, phase: Phase) -> None:
        """Tell what this client does; the server learns it at once."""
        if self.progress.phase != phase:
            # Rounds come and go several times a second.
            logger.log(logging.DEBUG if phase in _OF_ROUNDS else logging.INFO, "%s", phase)
            self.progress.phase = phase
            self.tell_soon()

    def failed(self, fault: ProcessFault) -> None:
        """Tell that this process ends because of its environment, to be started anew."""
        if fault.details:
            logger.error("it was at:\n%s", fault.details)
        logger.error("%s", fault.message)  # last: it is told as the cause of the end
        self.progress.environment_failed(fault)
        self.set_phase("restarting")

    def obey(self, plan: Plan, idle: Phase) -> None:
        """Pause, stop, or be ready (then `idle` is shown), where no episode is to be ended."""
        wish = self.wish
        if not plan.stop:
            self.set_phase(idle if plan.stepping is Stepping.FREE else "paused")
        else:
            if self._owner is not None and self._owner.runner_is_gone:
                self.farewell = "its runner is gone"
            else:
                by_server = wish.state in ("finish", "stop")
                self.farewell = "the server asked it to stop" if by_server else "asked to stop"
            self.set_phase("stopping")
            self._stop.set()
        self.answer(wish)

    @property
    def unanswered(self) -> bool:
        """Whether the server wants something that it was not answered yet."""
        answered, command = self.progress.answered, self.wish.command_id
        return bool(command) and (answered is None or answered.command_id != command)

    @contextmanager
    def checked(self, name: str) -> Iterator[None]:
        """Note in `checks` whether this block passes (`messages.owner.ClientReport`)."""
        self.progress.checks[name] = True
        try:
            yield
        except SoulsGuiError:
            self.progress.checks[name] = False
            raise

    def answer(self, wish: Wish) -> None:
        """Tell that a wish was fulfilled."""
        answered = self.progress.answered
        if wish.command_id and (answered is None or answered.command_id != wish.command_id):
            self.progress.answered = Answer(command_id=wish.command_id, ok=True)
            self.tell_soon()

    def tell_soon(self) -> None:
        """Send the next beat and the next report at once."""
        self._heartbeat.soon()
        if self._owner is not None:
            self._owner.soon()

    def leave_run(self) -> None:
        """End the present session, sending what waits."""
        if self._uploader is not None:
            self._uploader.close()
            self._uploader = None

    def close(self) -> None:
        """Send what waits, say goodbye and end every thread."""
        self.leave_run()
        if self._opened:
            self._downloader.close()
            self._heartbeat.close()
        if self._owner is not None:
            self.progress.leaving = self.progress.phase != "restarting"
            self._owner.close()

    def _take(self, view: ServerView) -> None:
        with self._changed:
            self.view = view
            if view.greedy_order is not None:
                self.asked = view
            if view.config is not None:
                self.progress.checks["configuration"] = True
            if self._uploader is not None:
                self._uploader.granted(view.grant)
                header, run = view.header, self._entered
                delay = None if run is None else run.max_model_delay
                if delay is not None and header is not None and run and header.run_id == run.run_id:
                    self._uploader.drop_older(header.model_id - delay)
        self._plan_anew()

    def _plan_anew(self) -> None:
        """Something may be wanted now that was not wanted before; called in several threads."""
        with self._changed:
            owner = self._owner.wish if self._owner is not None else "run"
            self.plan = plan = plan_of(owner, self.view.wish)
            self._changed.notify_all()
        idle = plan.stepping is Stepping.NONE or not self._opened
        if owner in ("stop", "stop_after_episode") and idle:
            # Nothing is being played that could end: also a process that waits for its server ends.
            self._stop.set()

    def _report(self) -> ClientReport:
        view, progress = self.view, self.progress
        return ClientReport(
            beat=progress.beat(),
            env_steps=progress.env_steps,
            grant=view.grant,
            wish=view.wish,
            checks=dict(progress.checks),
            remote=progress.remote,
            lacks=list(progress.lacks),
            asks=progress.asks,
            episodes=progress.recent_episodes(),
            farewell=self.farewell,
        )

    def _server_returned(self) -> None:
        if (uploader := self._uploader) is not None:
            uploader.distrust()


def check_network(policy: Policy, header: WeightsHeader, space: ObservationSpec) -> None:
    """Make sure that the network says of the reference observation what the server's says."""
    if not same_outputs(header.reference, policy.outputs(reference_observation(space))[0]):
        raise ClientRegistrationError(
            "The network gives different results here than on the server.",
            "Install the same version of SoulsGUI and of numpy on both.",
        )
