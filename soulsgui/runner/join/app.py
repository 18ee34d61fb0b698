"""The runner of client mode: lets this machine play for a server, as its owner wishes."""

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from soulsgui.config.paths import Folders
from soulsgui.errors import ServiceError, SoulsGuiError
from soulsgui.process import own_terminal, setup_logging
from soulsgui.runner.base import BaseRunner
from soulsgui.runner.join.commands import CHECKS, HANDLERS
from soulsgui.runner.join.finder import Finder, OwnServer, ServerWatch
from soulsgui.runner.join.player import OwnerRules, Player, unconfined
from soulsgui.runner.join.reports import OwnReturns, Reports
from soulsgui.runner.join.servers import SavedInvitations, lacks_of
from soulsgui.system import (
    Presence,
    descends_from,
    process_identity,
    raise_open_files,
    write_private,
)
from soulsgui.wire.beats import ClientState
from soulsgui.wire.control import ClientStatus, Status
from soulsgui.wire.control.states import Situation, situation
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import name_of_machine
from soulsgui.wire.messages.owner import ClientFolder
from soulsgui.wire.messages.server_config import Execution

logger = logging.getLogger(__name__)

_IDENTITY_FILE = "identity.json"
_READ_EVERY_S = 0.2
_SERVER_EVERY_S = 1.0
_WATCHED_EVERY_S = 0.5
_FITS_EVERY_S = 30.0
_RULES_EVERY_S = 2.0
_IDLE_TIMEOUT_S = 5.0
_LASTS_S = 5.0


class StateChanges:
    """Filters the states worth logging: short waits are left out, because with PPO each round ends in one."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._waits_since: float | None = None

    def is_new(self, state: str, now: float) -> bool:
        """Whether a state differs from the one logged last and is no short wait; it then counts as logged."""
        if not state.startswith("waiting"):
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        if state == self._shown or (self._waits_since is not None and now - self._waits_since < _LASTS_S):
            return False
        self._shown = state
        return True


class ClientRunner(BaseRunner):
    """The runner of client mode in one data folder.

    Without a window that follows it for `unwatched_limit_s`, it lets the client end its episode and ends
    (None: never). `invitation` names the server to play for; None is the one on this machine. An `idle`
    runner waits to be told to play; a client that plays already is taken over all the same.
    """

    role = "client"
    handlers = HANDLERS
    checks = CHECKS

    def __init__(
        self,
        folders: Folders,
        name: str,
        unwatched_limit_s: float | None = None,
        invitation: Invitation | None = None,
        idle: bool = False,
        presence: Presence | None = None,
    ) -> None:
        super().__init__(folders, folders.client, _IDENTITY_FILE)
        self.name = name  # What this machine's client is called by the server it plays for
        self.saved = SavedInvitations(folders)  # The invitations that were taken up here
        self._own_name = name if invitation is None else ""
        self.invitation = invitation  # of whom it plays for; None: this computer's own server
        self._agreement = self._agreement_of(invitation)
        self._asked: Execution | None = None  # what the server asks to run here, as it was told last
        self._idle = idle
        self._choosing = asyncio.Lock()
        self.folder = ClientFolder(folders.client)
        self.returns = OwnReturns(name)
        self._unwatched_limit_s = unwatched_limit_s
        self.ends_with_window = unwatched_limit_s is not None
        self._presence = presence or Presence()
        self._ending = threading.Event()
        self._told = StateChanges(ClientState.LEFT.value)
        self._server = self._watch_of(invitation)

    async def open(self) -> None:
        """Open the control API, and take over or start the client."""
        try:
            self._take_folder(
                "A runner of client mode", "End it: soulsgui join stop. Or use another --data-dir."
            )
            self._tell_who_we_are()
            self._reports = Reports(self.folder, self._pid)
            self.player = Player(self.folder, self.name, self.supervisor, self._reports, self._agreement)
            self.owner_rules = OwnerRules(self.folder.rules, self._presence, self._is_of_client)
            await self._listen(0)
            self._cleanup.push_async_callback(self.supervisor.close)
            adopted = await self._take_over()
            await self.supervisor.stop_orphans()
            await self.player.use_server(self._server.search.address)
            # Before the first step is played.
            await self.follow_rules()
            if not adopted and not self._idle:
                await self._unless_it_fails(self.player.switch_on())
            self._keep_doing(self._read, "reports", _READ_EVERY_S)
            self._keep_doing(self._look_at_server, "server", _SERVER_EVERY_S)
            self._keep_doing(self._join_when_it_fits, "versions", _FITS_EVERY_S)
            self._keep_doing(self.follow_rules, "rules", _RULES_EVERY_S)
            limit_s = self._unwatched_limit_s
            if limit_s is not None:
                self._keep_doing(lambda: self._end_unwatched(limit_s), "watched")
            self._announce()
        except BaseException:
            await self._cleanup.aclose()
            raise

    async def close(self) -> None:
        """End the client and the control API; nothing is left behind."""
        self._ending.set()
        try:
            await self.player.switch_off()
        finally:
            await self._clean_up()

    def _tell_who_we_are(self) -> None:
        """Let the client see whether its runner lives: without one it ends after its episode."""
        identity = process_identity(os.getpid())
        if identity is None:
            raise SoulsGuiError("This system hides processes from themselves: no client can be watched here.")
        write_private(self.folder.runner, json.dumps(identity).encode())
        self._cleanup.callback(self.folder.runner.unlink, missing_ok=True)

    async def _take_over(self) -> bool:
        """Take over the client of an earlier runner when it plays for our server; return whether it does."""
        search, played_for = self._server.search, self.player.address
        if played_for is not None and not search.is_of(played_for):
            self.player.leave_server(self.name, self._agreement)
            return False
        if isinstance(search, OwnServer):
            # Quick, so that the first answer to a window is right already.
            await asyncio.to_thread(self._server.look)
        return await self.player.adopt()

    async def _unless_it_fails(self, start: Coroutine[Any, Any, None]) -> None:
        try:
            await start
        except ServiceError as error:
            # It shows as failed, and can be switched on again.
            logger.error("%s", error)

    def _watch_of(self, invitation: Invitation | None) -> ServerWatch:
        if invitation is None:
            return ServerWatch(OwnServer(self.folders.server_address))
        return ServerWatch(Finder(invitation, self._ending), invitation.server_name)

    def _agreement_of(self, invitation: Invitation | None) -> Path | None:
        return self.saved.agreement_path(invitation) if invitation is not None else None

    async def play_for(self, invitation: Invitation | None, begin: bool) -> None:
        """Play for another server from now on; the client ends first, as when it is switched off."""
        async with self._choosing:
            name = invitation.client if invitation is not None else self._own_name or name_of_machine()
            begin = begin or self.player.wanted
            await self.player.switch_off()
            await asyncio.to_thread(self.saved.choose, invitation)
            self.invitation = invitation
            self._agreement = self._agreement_of(invitation)
            self.player.leave_server(name, self._agreement)
            self.name, self.returns = name, OwnReturns(name)
            self._reports.forget()
            self._told = StateChanges(ClientState.LEFT.value)
            self._server = self._watch_of(invitation)
            logger.info("%s helps %s from now on", name, invitation.server_name if invitation else "here")
            if begin:
                await self.player.switch_on()
            self._changed.set()

    def _pid(self) -> int | None:
        return self.supervisor.pid_of("client")

    async def _read(self) -> None:
        self.player.look()
        report = self._reports.read()
        rows = self.returns.take(report) if report is not None else None
        if rows is not None:
            self.publisher.rows([rows])
        client = self._client()
        self.publisher.clients([client])
        if client.asks != self._asked:
            self._asked = client.asks
            if client.asks is not None:
                name = self._server.status.name or "the server"
                how = "It waits until you agree: soulsgui join agree"
                logger.warning("%s wants to run here: %s. %s", name, client.asks.sentence, how)
        # What one that is gone played may be what an earlier runner's report tells: that is no news.
        gone = client.state == ClientState.LEFT
        state = client.state if gone else f"{client.state} {client.env_id}".strip()
        if client.state == ClientState.WAITING and situation(self.status()) is Situation.WITHOUT_RUN:
            state = "waiting for a run: it plays as soon as one is started on the server"
        if self._told.is_new(state, time.monotonic()):
            logger.info("%s: %s", self.name, state)
            self._changed.set()

    async def _look_at_server(self) -> None:
        watch, before = self._server, self._server.status
        try:
            await asyncio.to_thread(watch.look)
            async with self._choosing:
                # Meanwhile another server may have been chosen.
                if watch is self._server:
                    await self.player.use_server(watch.search.address)
        except (OSError, SoulsGuiError) as error:
            logger.warning("the server can't be followed: %s", error)
        if watch.status != before:
            self._changed.set()
        if watch.status.error not in ("", before.error):
            logger.warning("%s It is tried again.", watch.status.error)

    async def _join_when_it_fits(self) -> None:
        """Start a client anew that gave up because of a version, once server and computer fit."""
        address, player = self._server.search.address, self.player
        if not player.wanted or address is None or player.status().state != "failed":
            return
        lacked = bool(self._client().lacks)
        if lacked and await asyncio.to_thread(lacks_of, address) == [] and player.wanted:
            logger.info("the versions fit now")
            await self._unless_it_fails(player.restart())

    async def follow_rules(self) -> None:
        """Look once what the owner's rules say."""
        held = await asyncio.to_thread(self.owner_rules.held)
        if held != self.player.held:
            logger.info("holding back: %s", held or "no longer")
            self.player.held = held
        if (pid := self._pid()) is not None:
            await asyncio.to_thread(self.owner_rules.hold_back, pid)

    def _is_of_client(self, pid: int) -> bool:
        own = self._pid()
        return own is not None and descends_from(pid, own)

    async def _end_unwatched(self, limit_s: float) -> None:
        """End once no window has followed for so long; one that comes back in time changes that."""
        seen_at = time.monotonic()
        finishing: asyncio.Task[None] | None = None
        try:
            while finishing is None or not finishing.done():
                await asyncio.sleep(_WATCHED_EVERY_S)
                # Where nothing plays there is less to come back to.
                timeout_s = limit_s if self.player.wanted else min(limit_s, _IDLE_TIMEOUT_S)
                if self.feed.followers:
                    seen_at = time.monotonic()
                    if finishing is not None:
                        finishing.cancel()
                        finishing = None
                        self.player.keep_wish()
                elif finishing is None and time.monotonic() - seen_at > timeout_s:
                    logger.info("no window is open any more: ending after the episode")
                    finishing = asyncio.create_task(self.player.finish())
            self.ask_to_close()
        finally:
            if finishing is not None:
                finishing.cancel()

    def _run_of(self, service: str) -> str:
        return self.returns.run_id

    def _client(self) -> ClientStatus:
        returns = self.returns
        client = self._reports.client(self.name, self.player.wish, returns.env_steps, returns.episodes)
        held = self.player.held
        owner: dict[str, Any] = {
            "paused_until": self.player.kept.until,
            "held": held,
            "held_until": self.owner_rules.hours_begin() if held == "hours" else None,
            "allowed": self.permissions.of_client(self, self.name),
            "unconfined": unconfined(self.owner_rules.rules) if self.invitation is not None else "",
        }
        if self._server.search.revoked:
            owner |= {"state": ClientState.REVOKED.value, "error": self._server.status.error}
        return client.model_copy(update=owner)

    def status(self, with_clients: bool = True) -> Status:
        """Return everything at this moment, or all but the client."""
        service = self.player.status()
        allowed = self.permissions.of_service(self, service.name)
        return Status(
            run=self._reports.run(self.returns.env_steps, self.returns.episodes),
            services=[service.model_copy(update={"allowed": allowed})],
            clients=[self._client()] if with_clients else [],
            server=self._server.status,
        )


UNWATCHED_LIMIT_S = 15.0  # a runner that is there for a window ends so long after the last one is gone


def join(
    folders: Folders, name: str, watched: bool, invitation: Invitation | None = None, idle: bool = False
) -> int:
    """Play for a server until told to end; return the exit code."""
    setup_logging()
    raise_open_files()
    with own_terminal():
        return asyncio.run(_run(folders, name, watched, invitation, idle))


async def _run(folders: Folders, name: str, watched: bool, invitation: Invitation | None, idle: bool) -> int:
    runner = ClientRunner(folders, name, UNWATCHED_LIMIT_S if watched else None, invitation, idle)
    runner.obey_signals()
    await runner.open()
    try:
        where = f"{invitation.server_name} ({invitation.places})" if invitation else "this computer's server"
        logger.info("%s helps %s; control API at %s", name, where, runner.control.url)
        if not watched:
            logger.info("from a second terminal: soulsgui join pause, continue, status, agree, stop")
        await runner.closing.wait()
    finally:
        await runner.close()
    return 0
