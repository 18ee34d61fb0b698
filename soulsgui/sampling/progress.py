"""What a client process knows of itself, shared by its threads, and its lines in the log."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from soulsgui.errors import EnvironmentFault, counted
from soulsgui.wire.messages.base import LONGEST_DETAILS, Instance
from soulsgui.wire.messages.heartbeat import Answer, GreedyPlay, Heartbeat, InferenceFigures, Phase
from soulsgui.wire.messages.owner import KEPT_EPISODES, KEPT_FOR_S, MOST_EPISODES, OwnEpisode
from soulsgui.wire.messages.server_config import Execution
from soulsgui.wire.messages.session import GamePicture
from soulsgui.wire.versions import MissingRequirement

logger = logging.getLogger(__name__)

_RETURNS_KEPT = 20
_RATE_WINDOW_S = 5.0
_SHORTEST_WAIT_S = 0.01
_LOG_EVERY_S = 30.0


@dataclass
class Progress:
    """Figures of one client process; every method may be called from any thread.

    Steps, episodes, waits and what else is counted belong to the present run: another run begins at 0.
    """

    client: str
    instance: Instance
    num_envs: int
    versions: dict[str, str]
    phase: Phase = "joining"
    session: str = ""
    run_id: str = ""
    env_id: str = ""
    model_id: int = -1
    env_steps: int = 0
    episodes: int = 0
    buffered_bytes: int = 0
    dropped: int = 0
    sent_chunks: int = 0
    sent_bytes: int = 0
    sent_steps: int = 0
    update: int = 0
    error: str = ""
    error_details: str = ""  # a traceback
    env_restarts: int = 0
    step_ms: float | None = None
    late_steps: int = 0
    human_steps: int = 0
    simulated: bool = False  # steps no environment
    shown: bool = False  # its game may be looked at, and can be
    picture: GamePicture | None = None  # of the game, to be sent
    leaving: bool = False
    answered: Answer | None = None
    inference: InferenceFigures | None = None  # of an inference server
    served: dict[str, int] = field(default_factory=dict)  # by it, as `messages.session.SessionHello`
    greedy: GreedyPlay | None = None  # the newest evaluation; None where this client can't be asked for any
    checks: dict[str, bool] = field(default_factory=dict)  # as `messages.owner.ClientReport`
    remote: bool = False  # an inference server chooses its actions in the present run
    lacks: list[MissingRequirement] = field(default_factory=list)  # what the server needs and is not here
    asks: Execution | None = None  # what the server wants to run here and the owner has not agreed to
    keeps_episodes: bool = True  # the owner of this computer asks for them
    _fault: str = ""
    _past_sessions: set[str] = field(default_factory=set)
    _greedy_steps: int = 0
    _counter: int = 0
    _returns: deque[float] = field(default_factory=lambda: deque(maxlen=_RETURNS_KEPT))
    _finished: deque[OwnEpisode] = field(default_factory=deque)
    _rate: deque[tuple[float, int, float]] = field(default_factory=deque)
    _waits: int = 0
    _waited_s: float = 0.0
    _waits_since: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def end_session(self) -> None:
        """Be in no session, until another one begins."""
        with self._lock:
            if self.session:
                self._past_sessions.add(self.session)
            self.session = ""

    def was_in(self, session: str) -> bool:
        """Whether this process itself began a session before the present one.

        Its id does not tell: a server that lost its data, and whose clock was stepped back, begins again with
        smaller ones.
        """
        with self._lock:
            return session in self._past_sessions

    def begin_run(self, run_id: str) -> None:
        """Count for this run from here on; the figures of another one end."""
        with self._lock:
            if run_id == self.run_id:
                return
            if self.run_id:
                # What went wrong in the run before does not concern this one.
                self.error = self.error_details = self._fault = ""
                self.env_restarts = 0
            self.run_id, self.model_id, self.update = run_id, -1, 0
            self.env_steps = self.episodes = self.dropped = self.late_steps = self.human_steps = 0
            self._greedy_steps = self._waits = 0
            self._waited_s, self._waits_since = 0.0, None
            self._returns.clear()
            self._finished.clear()
            self._rate.clear()

    def stepped(self, steps: int) -> None:
        """Count environment steps."""
        with self._lock:
            self.env_steps += steps

    def stepped_greedily(self) -> None:
        """Count a step of an evaluation."""
        with self._lock:
            self._greedy_steps += 1

    def wait_for_server(self, waiting: bool, now: float) -> None:
        """Say whether it waits from now on for the server to want more samples."""
        with self._lock:
            since = self._waits_since
            if waiting and since is None:
                self._waits_since = now
            elif since is not None and not waiting:
                self._waits_since, self._waited_s = None, self._waited_s + now - since
                self._waits += now - since >= _SHORTEST_WAIT_S

    def drop(self, steps: int) -> None:
        """Count environment steps that were given up."""
        with self._lock:
            self.dropped += steps

    def environment_failed(self, fault: EnvironmentFault) -> None:
        """Take note that the environment failed."""
        with self._lock:
            self.error, self.error_details = fault.message, _end_of(fault.details)
            self._fault = fault.message
            self.env_restarts += 1

    def environment_works(self) -> None:
        """Take note that the environment has been well for a while: its failure is no error any more."""
        with self._lock:
            if self.error == self._fault:
                self.error = ""

    def goes_on_after(self, before: Heartbeat) -> None:
        """Take over the environment failures reported by an earlier process of this client."""
        with self._lock:
            self.error, self.error_details = before.error, before.error_details
            self._fault, self.env_restarts = before.error, before.env_restarts

    def episode_ended(self, total_return: float, length: int) -> int:
        """Count a finished episode; return its number, from 0."""
        now = time.time()
        with self._lock:
            number, self.episodes = self.episodes, self.episodes + 1
            self._returns.append(total_return)
            if self.keeps_episodes:
                kept = self._finished
                kept.append(
                    OwnEpisode(
                        number=number,
                        run_id=self.run_id,
                        time=now,
                        env_steps=self.env_steps,
                        total_return=total_return,
                        length=length,
                        model_id=self.model_id,
                    )
                )
                while len(kept) > MOST_EPISODES or (
                    len(kept) > KEPT_EPISODES and kept[0].time < now - KEPT_FOR_S
                ):
                    kept.popleft()
            return number

    @property
    def mean_return(self) -> float | None:
        """Mean over the last finished episodes, None before the first."""
        with self._lock:
            return sum(self._returns) / len(self._returns) if self._returns else None

    def recent_episodes(self) -> list[OwnEpisode]:
        """Return the newest finished episodes, oldest first."""
        with self._lock:
            found = list(self._finished)
        young = sum(episode.time > time.time() - KEPT_FOR_S for episode in found)
        return found[-max(young, KEPT_EPISODES) :]

    def beat(self) -> Heartbeat:
        """Return the next heartbeat."""
        now = time.monotonic()
        with self._lock:
            self._counter += 1
            waited_s = self._waited_s + (now - self._waits_since if self._waits_since is not None else 0.0)
            self._rate.append((now, self.env_steps, waited_s))
            while len(self._rate) > 2 and now - self._rate[0][0] > _RATE_WINDOW_S:
                self._rate.popleft()
            (since, steps, before_s), returns = self._rate[0], list(self._returns)
            rate = (self.env_steps - steps) / (now - since) if now > since else 0.0
            waiting = (waited_s - before_s) / (now - since) if now > since else 0.0
            told = {name: value for name, value in vars(self).items() if name in Heartbeat.model_fields}
            told["error"] = self.error[:1000]
            told["step_ms"] = None if self.step_ms is None else round(self.step_ms, 3)
            told["greedy"] = self.greedy and self.greedy.model_copy(update={"steps": self._greedy_steps})
            return Heartbeat(
                **told,
                counter=self._counter,
                env_steps_per_s=round(rate, 1),
                last_return=returns[-1] if returns else None,
                mean_return=sum(returns) / len(returns) if returns else None,
                waits=self._waits,
                waited_s=round(waited_s, 3),
                waiting=round(min(max(waiting, 0.0), 1.0), 3),
            )


def _end_of(details: str) -> str:
    """Return the end of a traceback, where the cause stands: whole lines that fit into a beat."""
    kept: list[str] = []
    left = LONGEST_DETAILS
    for line in reversed(details.splitlines(keepends=True)):
        left -= len(line.encode(errors="replace"))
        if left < 0:
            break
        kept.append(line)
    return "".join(reversed(kept))


class ProgressLog:
    """Logs now and then how far a client has come."""

    def __init__(self, progress: Progress, now: float) -> None:
        self._progress = progress
        self._told_at = now

    def look(self, now: float) -> None:
        """Log a line if one is due."""
        if now - self._told_at < _LOG_EVERY_S:
            return
        self._told_at = now
        mean = self._progress.mean_return
        returns = f", mean return {mean:.1f}" if mean is not None else ""
        logger.info("%s%s", made_words(self._progress), returns)


def made_words(progress: Progress) -> str:
    """Return what a client has made for its run, such as "2,048 steps (16 dropped), 1 episode"."""
    dropped = f" ({progress.dropped:,} dropped)" if progress.dropped else ""
    late = f", {progress.late_steps:,} late" if progress.late_steps else ""
    by_hand = f", {progress.human_steps:,} by hand" if progress.human_steps else ""
    steps = f"{counted(progress.env_steps, 'step')}{dropped}{late}{by_hand}"
    return f"{steps}, {counted(progress.episodes, 'episode')}"
