"""The runner of client mode: lets this machine play for a server, as its owner wishes."""

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Mapping

from soulsgui.config.paths import Folders
from soulsgui.errors import ServiceError, SoulsGuiError
from soulsgui.runner.base import BaseRunner, Handler
from soulsgui.runner.join.commands import HANDLERS, LONG
from soulsgui.runner.join.finder import Finder
from soulsgui.runner.join.player import Player
from soulsgui.runner.join.reports import Reports
from soulsgui.runner.join.returns import OwnReturns
from soulsgui.runner.join.server_watch import OwnServer, ServerWatch
from soulsgui.system import process_identity, write_private
from soulsgui.wire.control import ClientStatus, Status
from soulsgui.wire.fleet import ClientState
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.owner import ClientFolder

logger = logging.getLogger(__name__)

_IDENTITY_FILE = "identity.json"
_READ_EVERY_S = 0.2
_SERVER_EVERY_S = 1.0
_WATCHED_EVERY_S = 0.5


class ClientRunner(BaseRunner):
    """The runner of client mode in one data folder.

    Args:
        folders: The user's folders.
        name: What this machine's client is called.
        unwatched_limit_s: After so long without a window that follows it, it lets the client end its episode
            and ends; None goes on without.
        invitation: Of the server to play for; None plays for the one that runs on this machine.
    """

    role = "client"

    def __init__(
        self,
        folders: Folders,
        name: str,
        unwatched_limit_s: float | None = None,
        invitation: Invitation | None = None,
    ) -> None:
        super().__init__(folders, folders.client, _IDENTITY_FILE)
        self.name = name
        self.folder = ClientFolder(folders.client)
        self.returns = OwnReturns(name)
        self._unwatched_limit_s = unwatched_limit_s
        self._ending = threading.Event()
        if invitation is None:
            self._server = ServerWatch(OwnServer(folders.server_address))
        else:
            self._server = ServerWatch(Finder(invitation, self._ending), invitation.server_name)

    # --- opening and closing -----------------------------------------------------------------------

    async def open(self) -> None:
        """Open the control API, and take over or start the client.

        Raises:
            SoulsGuiError: Another runner of client mode uses the data folder.
        """
        try:
            self._take_folder("A runner of client mode", "End it, or use another --data-dir.")
            self._tell_who_we_are()
            self._reports = Reports(self.folder, self._pid)
            self.player = Player(self.folder, self.name, self.supervisor, self._reports)
            await self._listen(0)
            self._cleanup.push_async_callback(self.supervisor.close)
            adopted = await self._take_over()
            await self.supervisor.stop_orphans()
            await self.player.use_server(self._server.search.address)
            if not adopted:
                await self._begin_to_play()
            self._keep_doing(self._read, "reports")
            self._keep_doing(self._look_at_server, "server")
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
        """Let the client see whether its runner lives: without one it ends after its episode.

        Raises:
            SoulsGuiError: The system does not tell a process about itself.
        """
        identity = process_identity(os.getpid())
        if identity is None:
            raise SoulsGuiError("This system hides processes from themselves: no client can be watched here.")
        write_private(self.folder.runner, json.dumps(identity).encode())
        self._cleanup.callback(self.folder.runner.unlink, missing_ok=True)

    async def _take_over(self) -> bool:
        """Take over the client of an earlier runner when it plays for our server; return whether it does."""
        search, played_for = self._server.search, self.player.address
        if played_for is not None and not search.is_of(played_for):
            self.player.leave_server()
            return False
        if isinstance(search, OwnServer):
            # Quick, so that the first answer to a window is right already.
            await asyncio.to_thread(self._server.look)
        return await self.player.adopt()

    async def _begin_to_play(self) -> None:
        try:
            await self.player.switch_on()
        except ServiceError as error:
            # It shows as failed, and can be switched on again.
            logger.error("%s", error)

    def _pid(self) -> int | None:
        return self.supervisor.pid_of("client")

    # --- while it runs -----------------------------------------------------------------------------

    async def _read(self) -> None:
        shown = ClientState.LEFT.value
        while True:
            try:
                self._take_report()
                shown = self._log_state(shown)
            except Exception:
                # One bad report must not make the runner blind.
                logger.exception("the client's report could not be used")
            await asyncio.sleep(_READ_EVERY_S)

    def _take_report(self) -> None:
        self.player.look()
        report = self._reports.read()
        rows = self.returns.take(report) if report is not None else None
        if rows is not None:
            self.publisher.rows([rows])
        self.publisher.clients([self._client()])

    def _log_state(self, shown: str) -> str:
        client = self._client()
        state = f"{client.state} {client.env_id}".strip()
        if state != shown:
            logger.info("%s: %s", self.name, state)
            self._changed.set()
        return state

    async def _look_at_server(self) -> None:
        while True:
            before = self._server.status
            try:
                await asyncio.to_thread(self._server.look)
                await self.player.use_server(self._server.search.address)
            except (OSError, SoulsGuiError) as error:
                logger.warning("the server can't be followed: %s", error)
            if self._server.status != before:
                self._changed.set()
            if self._server.status.error not in ("", before.error):
                logger.warning("%s", self._server.status.error)
            await asyncio.sleep(_SERVER_EVERY_S)

    async def _end_unwatched(self, limit_s: float) -> None:
        """End once no window has followed for so long; one that comes back in time changes that."""
        seen_at = time.monotonic()
        finishing: asyncio.Task[None] | None = None
        try:
            while finishing is None or not finishing.done():
                await asyncio.sleep(_WATCHED_EVERY_S)
                if self.feed.followers:
                    seen_at = time.monotonic()
                    if finishing is not None:
                        finishing.cancel()
                        finishing = None
                        self.player.keep_wish()
                elif finishing is None and time.monotonic() - seen_at > limit_s:
                    logger.info("no window is open any more: ending after the episode")
                    finishing = asyncio.create_task(self.player.finish())
            self.ask_to_close()
        finally:
            if finishing is not None:
                finishing.cancel()

    def _run_of(self, service: str) -> str:
        return self.returns.run_id

    # --- what the control API needs ----------------------------------------------------------------

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """Every command, by name."""
        return HANDLERS

    @property
    def long_commands(self) -> Mapping[str, str]:
        """Commands that are shown as jobs, and what they do meanwhile."""
        return LONG

    def _client(self) -> ClientStatus:
        returns = self.returns
        client = self._reports.client(self.name, self.player.wish, returns.env_steps, returns.episodes)
        if self._server.search.revoked:
            update = {"state": ClientState.REVOKED.value, "error": self._server.status.error}
            return client.model_copy(update=update)
        return client

    def status(self) -> Status:
        """Return everything at this moment."""
        return Status(
            run=self._reports.run(self.returns.env_steps, self.returns.episodes),
            services=[self.player.status()],
            clients=[self._client()],
            server=self._server.status,
        )
