"""Events that somebody wants to be told of wherever they are, sent to a webhook."""

import asyncio
import html
import logging
import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from soulsgui.config.sections.server import AlertSettings
from soulsgui.runner.events import EventLog
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ErrorCode, Event, RunStatus

logger = logging.getLogger(__name__)

_MOST_WAITING = 100
_TRIES_S = (0.0, 5.0, 60.0)  # pauses before each try
_TIMEOUT_S = 15.0
_AGAIN_S = 600.0  # the same is not sent again within this
_HOUR_S = 3600.0
_LONGEST = 1800  # Discord takes 2,000 characters
_PRIORITY = {"info": "default", "warning": "high", "error": "urgent"}


class Alerts:
    """Sends what `alerts.on` names, one after the other; whatever the other side does, nobody waits."""

    def __init__(self, settings: AlertSettings) -> None:
        self.settings = settings  # they may be replaced at any time
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(_MOST_WAITING)
        self._sent: deque[float] = deque()
        self._last: dict[str, float] = {}
        self._left_out = 0
        self._moved: tuple[tuple[str, int, int], float] | None = None
        self._stuck = False

    def take(self, event: Event) -> None:
        """Send an event soon, if it is one of those that are wanted."""
        if not self.settings.webhook or event.topic not in self.settings.on:
            return
        now = time.monotonic()
        while self._sent and now - self._sent[0] > _HOUR_S:
            self._sent.popleft()
        self._last = {what: at for what, at in self._last.items() if now - at < _AGAIN_S}
        if event.what in self._last:
            return
        if len(self._sent) >= self.settings.per_hour or self._waiting.full():
            self._left_out += 1
            return
        self._sent.append(now)
        self._last[event.what] = now
        self._waiting.put_nowait(event)

    async def send_waiting(self) -> None:
        """Send one after the other, for ever."""
        while True:
            event = await self._waiting.get()
            for pause_s in _TRIES_S:
                await asyncio.sleep(pause_s)
                try:
                    await self.send(event)
                    break
                except Refused as error:
                    logger.warning("an alert was not taken: %s", error.message)

    async def send(self, event: Event) -> int:
        """Send an event at once; return the HTTP status. Errors never name the address, a secret."""
        left_out = self._left_out
        more = f" ({left_out} more were left out: alerts.per_hour)" if left_out else ""
        # A web page elsewhere is no place to be led on to.
        how: dict[str, Any] = _request(self.settings.format, event, more) | {"allow_redirects": False}
        try:
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self.settings.webhook, **how) as answer,
            ):
                status = answer.status
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: no address
            why = "it does not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
            raise Refused(
                ErrorCode.FAILED,
                f"The webhook at {self.place} can't be reached: {why}.",
                "Look at alerts.webhook, and at the network.",
            ) from None  # its text holds the address
        if status >= 300:
            raise Refused(
                ErrorCode.FAILED,
                f"The webhook at {self.place} answered {status}.",
                "Look at alerts.webhook and alerts.format: is it still valid, and of this kind?",
            )
        self._left_out -= left_out
        return status

    @property
    def place(self) -> str:
        """The host of the webhook; its path is a secret."""
        return urlsplit(self.settings.webhook).hostname or "no host"

    def check(self) -> None:
        """Raise that there is no webhook, where there is none."""
        if not self.settings.webhook:
            raise Refused(
                ErrorCode.NOT_NOW,
                "No webhook is set, so no alerts are sent.",
                "Set its address: soulsgui config set alerts.webhook=URL",
            )

    def look(self, run: RunStatus, now: float, events: EventLog) -> None:
        """Tell that a run makes no progress, and when it goes on."""
        at_work = run.state in ("running", "waiting") and not run.wished_pause
        place = run.id, run.env_steps, run.updates
        if not at_work or self._moved is None or self._moved[0] != place:
            self._moved = (place, now) if at_work else None
            if self._stuck and at_work:
                events.add("info", f"Run {run.id} continues", run_id=run.id)
            self._stuck = False
            return
        minutes = self.settings.no_progress_minutes
        if minutes and not self._stuck and now - self._moved[1] >= 60 * minutes:
            self._stuck = True
            what = f"Run {run.id} makes no progress: nothing was learned for {minutes:g} minutes."
            remedy = "See who plays: soulsgui status"
            events.add("warning", what, run.detail, remedy, run_id=run.id, topic="no_progress")


def _request(kind: str, event: Event, more: str) -> dict[str, Any]:
    """Return what aiohttp is to post: text, without markup and without anybody's being called by it."""
    lines = (f"{event.what}{more}", event.cause, event.remedy, f"run {event.run_id}" if event.run_id else "")
    text = "\n".join(line for line in lines if line)[:_LONGEST]
    if kind == "ntfy":
        headers = {"Title": f"SoulsGUI: {event.level}", "Priority": _PRIORITY[event.level]}
        return {"data": text.encode(), "headers": headers}
    if kind == "discord":
        shown = "```\n" + text.replace("`", "'") + "\n```"
        return {"json": {"content": shown, "allowed_mentions": {"parse": []}}}
    if kind == "slack":
        plain = {"type": "plain_text", "text": text, "emoji": False}
        blocks = [{"type": "section", "text": plain}]
        return {"json": {"text": html.escape(text, quote=False), "blocks": blocks}}
    return {"json": event.model_dump(mode="json") | {"text": text}}
