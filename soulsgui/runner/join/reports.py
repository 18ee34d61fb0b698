"""What the client says of itself, read from its file; and how it is, as every window sees it."""

import time
from collections.abc import Callable

from soulsgui.runner.family import Family
from soulsgui.runner.service import Health
from soulsgui.wire.control import ClientStatus, RunState, RunStatus
from soulsgui.wire.fleet import BeatClock, ClientState, client_state
from soulsgui.wire.messages.owner import ClientFolder, ClientReport

_RUN_STATES: dict[str, RunState] = {"sampling": "running", "finishing": "running", "paused": "paused"}


class Reports:
    """The newest report of the client.

    Args:
        folder: The folder of client mode.
        pid: Tells the process of the service; None while there is none.
        clock: Monotonic time, seconds.
    """

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
        self._family = Family()
        self._beats = BeatClock()
        self._seen = 0

    def read(self) -> ClientReport | None:
        """Return the report when there is another one since the last call, else None."""
        try:
            changed_ns = self._folder.state.stat().st_mtime_ns
            if changed_ns == self._seen:
                return None
            report = ClientReport.read(self._folder.state.read_bytes())
        except OSError:
            # There is none yet, or Windows is just replacing it.
            return None
        self._seen = changed_ns
        if report is not None:
            self.newest = report
            self._beats.observe(report.beat, 0.0, self._clock())
        return report

    def forget(self) -> None:
        """Know nothing any more of what was reported so far: the client is another one."""
        self.newest = None

    @property
    def present(self) -> ClientReport | None:
        """The newest report when it is of the process that is supervised now."""
        report = self.newest
        if report is None or not self._family.includes(self._pid(), report.beat.instance.pid):
            return None
        return report

    def health(self) -> Health:
        """Tell the supervisor how the client is: by its report, so also while the server is away."""
        report = self.present
        if report is None:
            return Health(ready=False)
        beat = report.beat
        return Health(
            ready=True, tick=beat.counter, detail=beat.phase, error=beat.error, farewell=report.farewell
        )

    def client(self, name: str, wish: str, env_steps: int, episodes: int) -> ClientStatus:
        """Return how the client is.

        Args:
            name: The client's id.
            wish: What its owner wants.
            env_steps: Environment steps made here for the run.
            episodes: Episodes finished here for it.
        """
        report = self.newest
        common = ClientStatus(id=name, name=name, local=True, state=ClientState.LEFT, wish=wish)
        if report is None:
            return common
        beat, age_s = report.beat, self._beats.age_s(report.beat.client, self._clock())
        lives = self.present is not None
        state = client_state(beat, age_s or 0.0, report.grant, report.wish) if lives else ClientState.LEFT
        sampling = state == ClientState.ONLINE
        refusal = report.grant.reason if report.grant is not None else ""
        return common.model_copy(
            update={
                "host": beat.instance.host,
                "state": state,
                "age_s": age_s if lives else None,
                "stalled": sampling and self._beats.stalled(beat.client, self._clock()),
                "env_id": beat.env_id,
                "num_envs": beat.num_envs,
                "env_steps": env_steps,
                "episodes": episodes,
                "env_steps_per_s": beat.env_steps_per_s if sampling else 0.0,
                "last_return": beat.last_return,
                "mean_return": beat.mean_return,
                "model_id": beat.model_id,
                "buffered": beat.buffered_bytes,
                "dropped": beat.dropped,
                "waiting": beat.waiting if lives else 0.0,
                "waits": beat.waits,
                "waited_s": beat.waited_s,
                "rejected": dict(report.grant.rejected) if report.grant is not None else {},
                "version": beat.versions.get("soulsgui", ""),
                "error": beat.error or refusal,
                "error_details": beat.error_details,
                "step_ms": beat.step_ms,
                "late_steps": beat.late_steps,
                "human_steps": beat.human_steps,
                "env_restarts": beat.env_restarts,
                "checks": report.checks,
                "lacks": report.lacks,
                "share": report.grant.share if report.grant is not None and sampling else None,
            }
        )

    def run(self, env_steps: int, episodes: int) -> RunStatus:
        """Return what the client plays for; the state is `none` while it plays for nothing.

        Args:
            env_steps: Environment steps made here for the run.
            episodes: Episodes finished here for it.
        """
        report = self.present
        if report is None or not report.beat.run_id:
            return RunStatus()
        beat = report.beat
        return RunStatus(
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
