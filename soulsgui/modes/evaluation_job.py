"""The process of an evaluation that was asked of a runner: it plays, shows and films a checkpoint."""

import base64
import logging
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from soulsgui.config.schema import Settings
from soulsgui.errors import ProcessFault, SoulsGuiError
from soulsgui.modes.evaluate import Asked, Frame, evaluate_checkpoint
from soulsgui.modes.video import Video, check_pictures, check_video, jpeg, video
from soulsgui.process import asked, setup_logging
from soulsgui.system import LAST, SpareTime, explained, hold_back, kill_descendants
from soulsgui.wire.manifest import read_manifest

logger = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], None]

_TELL_EVERY_S = 0.25
_SHOW_EVERY_S = 1 / 30
_UNWATCHED_S = 10.0  # without anybody who watches: then it plays as fast as it can
_ASK_EVERY_S = 0.05  # whether it is to go on


def run_evaluation_job() -> int:
    """Carry out what standard input asks for (`runner.run.evaluations`)."""
    setup_logging()
    watched = _Watched()
    with asked(watched.hear) as (request, send):
        try:
            send({"report": _evaluate(request, send, watched)})
        except SoulsGuiError as error:
            send({"error": {"message": error.message, "remedy": error.remedy}})
        except OSError as error:  # such as a disk that is full
            message, remedy = explained(error)
            send({"error": {"message": message, "remedy": remedy}})
    return 0


class _Watched:
    """How fast those who watch want it played, as the runner said last; None: nobody watches."""

    def __init__(self) -> None:
        self.pace: float | None = None

    def hear(self, message: dict[str, Any]) -> None:
        self.pace = message["pace"]


def _evaluate(request: dict[str, Any], send: Send, watched: _Watched) -> dict[str, Any]:
    path, target = Path(request["path"]), Path(request["video"]) if request["video"] else None
    if target is not None:
        check_video(target.name)
    if request["frames"]:
        check_pictures()

    def end_hanging(fault: ProcessFault) -> None:
        """End this process, whose main thread is in an environment that does not answer."""
        logger.error("it was at:\n%s", fault.details)
        remedy = "Fix it, or give it more time: client.hang_seconds."
        send({"error": {"message": fault.message, "remedy": remedy}})
        kill_descendants()
        os._exit(1)

    progress = _Progress(send, request["episodes"], films=target is not None)
    with nullcontext() if target is None else video(target) as film:
        seen = request["frames"] or film is not None
        show = _Viewer(send, watched, film, request["frames"]) if seen else None
        asked = Asked(request["episodes"], request["seed"], request["greedy"], progress, show)
        settings = Settings.model_validate(request["settings"])
        found, report = evaluate_checkpoint(path, read_manifest(path), settings, asked, end_hanging)
        notes = [found.cut_words, "" if film is None else film.words]
    return report | {"notes": [note for note in notes if note]}


class _Progress:
    """Tells how far it is, a few times a second; what is answered says whether somebody watches."""

    def __init__(self, send: Send, episodes: int, films: bool) -> None:
        self._send, self._episodes = send, episodes
        self._what = "episodes filmed" if films else "episodes"
        self._next = 0.0
        self._spare_time: SpareTime | None = None

    def __call__(self, ended: int, steps: int) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _TELL_EVERY_S
            if self._spare_time is None:
                # It plays: from here on whatever trains goes first. To load takes seconds, which
                # would be minutes at this priority.
                hold_back(os.getpid(), nice=LAST)
                self._spare_time = SpareTime()
            self._spare_time.look()
            made = f"{steps:,} {'step' if steps == 1 else 'steps'}"
            doing = f"{ended} of {self._episodes} {self._what}, {made}"
            self._send({"doing": doing, "part": ended / self._episodes})


class _Viewer:
    """Shows frames while somebody watches, at the pace that is wanted, and films all of them."""

    def __init__(self, send: Send, watched: _Watched, film: Video | None, shows: bool) -> None:
        self._send, self._watched, self._film, self._shows = send, watched, film, shows
        self._watched_at = time.monotonic()
        self._next_shown = self._next_step = 0.0
        self._step_s = 0.0

    def __call__(self, make: Callable[[], Frame]) -> None:
        now = time.monotonic()
        watched = self._shows and self._watched.pace is not None
        if watched:
            self._watched_at = now
        due = watched and now >= self._next_shown
        if due or self._film is not None or not self._step_s:
            frame = make()
            self._step_s = 1 / frame.rate
            if self._film is not None:
                self._film.add(frame)
            if due:
                self._next_shown = max(self._next_shown + _SHOW_EVERY_S, now)
                self._send({"picture": _told(frame)})
        if self._shows and now < self._watched_at + _UNWATCHED_S:
            self._keep_pace(now)

    def _keep_pace(self, now: float) -> None:
        while self._watched.pace == 0:
            self._send({"waits": True})  # what is answered says whether it still is to
            time.sleep(_ASK_EVERY_S)
        self._next_step = max(self._next_step + self._step_s / (self._watched.pace or 1.0), now)
        time.sleep(max(0.0, self._next_step - time.monotonic()))


def _told(frame: Frame) -> dict[str, Any]:
    names = ("rate", "episode", "step", "return_so_far", "says", "ended")
    told = {name: getattr(frame, name) for name in names}
    said = [number if math.isfinite(number) else None for number in frame.said]
    jpeg_text = base64.b64encode(jpeg(frame.picture)).decode()
    return told | {"action": frame.action, "said": said, "jpeg": jpeg_text}
