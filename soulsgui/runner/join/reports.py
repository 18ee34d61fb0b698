"""The report file of the client, and its status for the control API."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from soulsgui.runner.refusal import Refused
from soulsgui.runner.services.processes import ProcessTree
from soulsgui.runner.services.service import Health
from soulsgui.system import read_small
from soulsgui.telemetry.store import as_history, bucket_width, into_buckets
from soulsgui.wire import control
from soulsgui.wire.beats import BeatClock, ClientState, client_state
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import AttemptStart, EpisodeRows
from soulsgui.wire.messages.owner import ClientFolder, ClientReport, OwnEpisode

_RUN_STATES: dict[str, control.RunState] = {"sampling": "running", "finishing": "running", "paused": "paused"}


class Reports:
    """The newest report of the client."""

    def __init__(
        self,
        folder: ClientFolder,
        pid: Callable[[], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.newest: ClientReport | None = None
        self._folder = folder
        self._pid = pid
        self._clock = clock
        self._tree = ProcessTree()
        self._beats = BeatClock()
        self._seen: tuple[int, int] | None = None  # when the file was written, and which one it is

    def read(self) -> ClientReport | None:
        """Return the report when there is another one since the last call, else None."""
        try:
            found = self._folder.state.stat()
            stamp = found.st_mtime_ns, found.st_ino  # the clock of files stands still for some milliseconds
            if stamp == self._seen:
                return None
            report = ClientReport.read(read_small(self._folder.state))
        except OSError:
            # There is none yet, Windows is just replacing it, or what runs put another thing in its place.
            return None
        self._seen = stamp
        if report is not None:
            self.newest = report
            self._beats.observe(report.beat, 0.0, self._clock())
        return report

    def forget(self) -> None:
        """Drop all reports so far: the client is another one."""
        self.newest = None

    @property
    def present(self) -> ClientReport | None:
        """The newest report when it is of the process that is supervised now."""
        report = self.newest
        ours = report is not None and self._tree.includes(self._pid(), report.beat.instance.pid)
        return report if ours else None

    def health(self) -> Health:
        """Tell the supervisor how the client is: by its report, so also while the server is away."""
        report = self.present
        if report is None:
            return Health(ready=False)
        beat = report.beat
        return Health(
            ready=True, tick=beat.counter, detail=beat.phase, error=beat.error, farewell=report.farewell
        )

    def client(self, name: str, wish: str, env_steps: int, episodes: int) -> control.ClientStatus:
        """Return how the client is."""
        report = self.newest
        common = control.ClientStatus(id=name, name=name, local=True, state=ClientState.LEFT, wish=wish)
        if report is None:
            return common
        beat, age_s = report.beat, self._beats.age_s(report.beat.client, self._clock())
        lives = self.present is not None
        state = client_state(beat, age_s or 0.0, report.grant, report.wish) if lives else ClientState.LEFT
        sampling = state == ClientState.ONLINE
        refusal = report.grant.reason if report.grant is not None else ""
        told = control.told_by_beat(beat) | {
            "state": state,
            "age_s": age_s if lives else None,
            "stalled": sampling and self._beats.stalled(beat.client, self._clock()),
            "env_steps": env_steps,
            "episodes": episodes,
            "rejected": dict(report.grant.rejected) if report.grant is not None else {},
            "error": beat.error or refusal,
            "checks": report.checks,
            "remote": report.remote,
            "lacks": report.lacks,
            "asks": report.asks if lives else None,
            "share": report.grant.share if report.grant is not None and sampling else None,
        }
        if not sampling:
            told["env_steps_per_s"] = 0.0
        if not lives:
            told["waiting"] = 0.0
        return common.model_copy(update=told)

    def run(self, env_steps: int, episodes: int) -> control.RunStatus:
        """Return what the client plays for; the state is `none` while it plays for nothing."""
        report = self.present
        if report is None or not report.beat.run_id:
            return control.RunStatus()
        beat = report.beat
        return control.RunStatus(
            id=beat.run_id,
            state=_RUN_STATES.get(beat.phase, "waiting"),
            env_id=beat.env_id,
            model_id=beat.model_id,
            env_steps=env_steps,
            episodes=episodes,
            mean_return=beat.mean_return,
            env_steps_per_s=beat.env_steps_per_s,
            rejected=dict(report.grant.rejected) if report.grant is not None else {},
            error=beat.error,
        )


KEPT = 20_000  # episodes that are remembered

_WINDOW = 20
_ATTEMPT = 1
_LATEST = "latest"


@dataclass(frozen=True)
class _Own:
    """One episode on the curve: its row is the number of the episode here, from 1, over all processes."""

    row: int
    time: float
    env_steps: int
    total_return: float
    length: int
    model_id: int
    mean_return: float


_METRICS: dict[str, Callable[[_Own], float]] = {
    "return": lambda own: own.total_return,
    "length": lambda own: float(own.length),
    "mean_return": lambda own: own.mean_return,
}
_AXES: dict[str, Callable[[_Own], float]] = {
    "episode": lambda own: float(own.row),
    "update": lambda own: float(own.row),  # updates are the server's: this machine knows of none
    "env_step": lambda own: float(own.env_steps),
    "time": lambda own: own.time,
}


class OwnReturns:
    """The curve of this machine. Another run begins another curve; another process goes on with it."""

    def __init__(self, client: str, kept: int = KEPT) -> None:
        self._client = client
        self._episodes: deque[_Own] = deque(maxlen=kept)
        self._recent: deque[float] = deque(maxlen=_WINDOW)
        self._instance: Instance | None = None
        self._begin("")

    def _begin(self, run_id: str) -> None:
        self.run_id = run_id
        self._episodes.clear()
        self._recent.clear()
        self._rows = self._untold = self._next_number = 0
        self._steps_before = self._steps_now = 0

    @property
    def episodes(self) -> int:
        """Episodes finished here for the run, also those that no report tells of any more."""
        return self._rows + self._untold

    @property
    def env_steps(self) -> int:
        """Environment steps made here for the run."""
        return self._steps_before + self._steps_now

    def take(self, report: ClientReport) -> EpisodeRows | None:
        """Take note of a report; return the episodes that are new, None when none is."""
        beat = report.beat
        if beat.run_id and beat.run_id != self.run_id:
            self._begin(beat.run_id)
        if beat.instance != self._instance:
            self._instance = beat.instance
            self._next_number = 0
            self._steps_before, self._steps_now = self.env_steps, 0
        if beat.run_id == self.run_id:
            self._steps_now = report.env_steps
        ours = (one for one in report.episodes if one.run_id == self.run_id)
        new = [one for one in ours if one.number >= self._next_number]
        if not new:
            return None
        self._untold += new[0].number - self._next_number
        self._next_number = new[-1].number + 1
        return self._as_rows([self._add(one) for one in new])

    def _add(self, episode: OwnEpisode) -> _Own:
        self._rows += 1
        self._recent.append(episode.total_return)
        own = _Own(
            row=self._rows,
            time=episode.time,
            env_steps=self._steps_before + episode.env_steps,
            total_return=episode.total_return,
            length=episode.length,
            model_id=episode.model_id,
            mean_return=sum(self._recent) / len(self._recent),
        )
        self._episodes.append(own)
        return own

    def _as_rows(self, episodes: list[_Own]) -> EpisodeRows:
        count = len(episodes)
        columns: dict[str, Any] = {
            one.name: [getattr(own, one.name) for own in episodes] for one in fields(_Own)
        }
        return EpisodeRows(
            run_id=self.run_id,
            attempt=[_ATTEMPT] * count,
            client=[self._client] * count,
            episode=columns["row"],
            **columns,
        )

    def history(self, params: control.HistoryQueryParams) -> control.History:
        """Return a curve."""
        if params.run not in (_LATEST, self.run_id):
            raise Refused(ErrorCode.NOT_FOUND, f"This machine does not play for “{params.run}”.")
        value, x = _METRICS.get(params.metric), _AXES[params.x]
        if value is None:
            known = ", ".join(_METRICS)
            raise Refused(ErrorCode.NOT_FOUND, f"There is no “{params.metric}” here.", f"There are: {known}")
        start = float("-inf") if params.start is None else params.start
        end = float("inf") if params.end is None else params.end
        others = bool(params.client) and params.client != self._client
        found = [] if others else [own for own in self._episodes if start <= x(own) <= end]
        length = x(found[-1]) - x(found[0]) if found else 0.0
        width = bucket_width(params.points, len(found), length, attempts=1)
        parts = [
            (own.row, own.row, _ATTEMPT, own.row, own.env_steps, own.time, x(own), *3 * (value(own),), 1)
            for own in found
        ]
        buckets = list(into_buckets(parts, width))
        return as_history(
            buckets,
            run_id=self.run_id,
            metric=params.metric,
            last_row=self._rows,
            overwritten=[False] * len(buckets),
            attempts=[AttemptStart(attempt=_ATTEMPT, update=0, env_steps=0, episodes=0, time=0.0)],
            metrics=list(_METRICS),
        )
