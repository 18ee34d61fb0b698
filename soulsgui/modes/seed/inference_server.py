"""The inference server: chooses the actions of clients without a policy.

To the trainer it is a client: what its clients' environments show goes out on its own stream, as segments.
"""

import logging
import threading
from typing import cast

import redis

from soulsgui.errors import SoulsGuiError
from soulsgui.modes.seed.served_run import ServedRun
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.heartbeat import ServerLogHandler
from soulsgui.sampling.link import ClientLink, checked_config
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat, InferenceFigures
from soulsgui.wire.messages.server_config import ServerConfig

logger = logging.getLogger(__name__)

_WAIT_S = 1.0
_REFUSED_S = 0.1


class InferenceServer:
    """Serves run after run."""

    def __init__(self, address: Address, name: str, stop: threading.Event, lines: ServerLogHandler) -> None:
        self._stop = stop
        self._beat_key = Keys(address.prefix).beat(name)
        self._link = Link(address, stop, name)
        self.client_link = ClientLink(address, name, 1, stop, None, lines)
        self.client_link.progress.inference = self.figures = InferenceFigures()
        self._run_id = ""

    def run(self) -> None:
        """Serve until stopped."""
        try:
            last = cast("bytes | None", self._link.run(lambda connection: connection.get(self._beat_key)))
            before = Heartbeat.read(last)
            if before is not None and before.inference is not None:
                self.figures.generation = before.inference.generation + 1
            self.client_link.open()
            while (config := self._next_run()) is not None:
                self._run_id = config.run_id
                self._serve(checked_config(config, self.client_link.progress))
                self.client_link.leave_run()
            self.client_link.farewell = self.client_link.farewell or "asked to stop"
        except SoulsGuiError as error:
            self.client_link.progress.error = error.message
            raise
        finally:
            self.client_link.close()
            self._link.close()

    def _next_run(self) -> ServerConfig | None:
        """Wait for another run; return None when it is time to go."""
        link = self.client_link
        while not self._stop.is_set():
            self.figures.turns += 1
            link.obey(link.plan, "waiting")
            if (config := self._another_run(link.view)) is not None:
                return config
            link.wait(lambda view: self._another_run(view) is not None, _WAIT_S)
        return None

    def _another_run(self, view: ServerView) -> ServerConfig | None:
        config = view.config
        if config is None or config.run_id == self._run_id or not config.spaces:
            return None
        return config if config.settings.get("inference") == "server" else None

    def _serve(self, config: ServerConfig) -> None:
        """Serve one run until it is over."""
        logging.getLogger().setLevel(config.settings["logging.level"].upper())
        run = ServedRun(config, self.client_link, self._link, self.figures)
        logger.info("serves run %s (generation %d)", config.run_id, self.figures.generation)
        while not self._stop.is_set() and not self._is_over(config):
            self.figures.turns += 1
            try:
                run.turn()
                self._link.back()
            except AWAY as error:
                self._link.lost(error)
            except redis.ResponseError as error:
                self._link.refused(error)
                self._stop.wait(_REFUSED_S)
        run.cut_all()

    def _is_over(self, config: ServerConfig) -> bool:
        now = self.client_link.view.config
        return now is not None and now.run_id != config.run_id


def run_inference_server(address: Address, name: str) -> int:
    """Serve until the process is asked to stop; call it in the main thread."""
    stop = stop_on_signals()
    setup_logging()
    lines = ServerLogHandler(address.password)
    logging.getLogger().addHandler(lines)
    try:
        InferenceServer(address, name, stop, lines).run()
    except Stopped:
        logger.info("stopped while the server was away")
    finally:
        logging.getLogger().removeHandler(lines)
    return 0
