"""Playing for one run, whether in rounds or freely."""

import base64
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import NDArray

from soulsgui.config.schema import received_settings
from soulsgui.environments.make import longest_episode
from soulsgui.environments.step import StepClock
from soulsgui.errors import EnvironmentCheckError, EnvironmentFault, ProcessFault
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.environment import Environment
from soulsgui.sampling.greedy import GreedyEvaluation
from soulsgui.sampling.heartbeat import derived_seed
from soulsgui.sampling.link import ClientLink, check_network
from soulsgui.sampling.owner_link import Plan, Stepping
from soulsgui.sampling.progress import ProgressLog
from soulsgui.sampling.remote import Interrupted, RemotePolicy, RemoteSampling
from soulsgui.sampling.rollout import FinishedEpisode, Rollout
from soulsgui.sampling.sampling_modes import FreeRunning, RolloutPlan, Rounds, SamplingMode, drops_when_full
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, family_of, state_of
from soulsgui.wire.messages.session import Episode, GamePicture

logger = logging.getLogger(__name__)

FIRST_S = 0.5
LONGEST_S = 30.0
HEALTHY_S = 60.0
_WAITING_AFTER_S = 1.0
_ENDED_BY_A_WISH = ("paused", "finishing", "restarting")


class RunPlayer:
    """Plays for one run, rollout after rollout."""

    def __init__(
        self,
        link: ClientLink,
        stop: threading.Event,
        config: ServerConfig,
        environment: Environment,
        policy: Policy | RemotePolicy,
        on_episode: Callable[[], None],
    ) -> None:
        self._link = link
        self._stop = stop
        self._config = config
        self._environment = environment
        self._on_episode = on_episode
        settings = config.settings
        self._family = family_of(settings["algorithm"])
        self._contract = environment.contract(self._family, state_of(config.policy))
        if self._contract != config.contract:
            raise EnvironmentCheckError(
                f"{environment.id} has other spaces here than on the server.",
                "Install the same version of the environment's package on both.",
            )
        self._attempt = config.attempt
        self._log_level = settings["logging.level"]
        self._episodes_over = True
        self._looked = 0  # the last number in a wish that a picture was sent for
        self._remote = policy if isinstance(policy, RemotePolicy) else None
        self._policy = None if isinstance(policy, RemotePolicy) else policy
        self._loaded: WeightsHeader | None = None
        self._log = ProgressLog(link.progress, time.monotonic())
        self._backoff = RestartBackoff()
        # A pause of a minute must not keep who is asked to stop.
        self._clock = StepClock(
            settings["client.step_seconds"], settings["client.step_delay"], sleep=stop.wait
        )
        self._in_lockstep = settings["determinism"] == "lockstep"
        self._greedy = self._greedy_episodes()
        self._rollout = Rollout(
            environment.stepper,
            environment.spaces,
            settings["client.segment_length"],
            derived_seed(config.seed, link.progress.client, config.attempt),
            self._ended,
            self._clock,
            None if self._policy is None else self._policy.to_environment,
            remembered_by(self._policy),
            self._greedy,
            self._remote,
            environment.metrics,
        )

    def _greedy_episodes(self) -> GreedyEvaluation | None:
        """Return what plays evaluations; None where everything is played in shares that are counted."""
        link, settings = self._link, self._config.settings
        link.progress.greedy = None
        if self._family != OFF_POLICY or self._in_lockstep:
            return None
        env = settings["env.id"], settings["env.kwargs"], settings["env.wrappers"]
        longest = longest_episode(*env, otherwise=settings["evaluation.max_steps"])
        return GreedyEvaluation(self._policy_with, link.progress, link.tell_soon, longest)

    def _policy_with(self, header: WeightsHeader, tensors: dict[str, NDArray[Any]]) -> Policy:
        """Make another policy of the run with weights, and check that it says what the server's says."""
        policy = make_policy(self._config.policy)
        policy.load(tensors)
        check_network(policy, header, self._environment.spaces.observation)
        return policy

    def play(self) -> None:
        """Play until the run changes or the process should stop."""
        link, settings = self._link, self._config.settings
        drops = self._family == OFF_POLICY and drops_when_full(settings)
        buffer_bytes = int(settings["client.buffer_bytes"])
        self._uploader = link.enter(self._config, self._contract, buffer_bytes, drops)
        self._mode = self._chosen_mode()
        progress = link.progress
        logger.info("plays %s × %d for run %s", progress.env_id, progress.num_envs, progress.run_id)
        while self._play_on():
            pass

    def _chosen_mode(self) -> SamplingMode | RemoteSampling:
        link, policy = self._link, self._policy
        if policy is None:
            assert self._remote is not None
            return RemoteSampling(link, self._remote, self._greedy)
        if self._family != OFF_POLICY:
            return Rounds(link, self._uploader, policy)
        free = FreeRunning(link, self._uploader, policy, self._rollout, self._config, self._greedy)
        return Rounds(link, self._uploader, policy, free) if self._in_lockstep else free

    def _play_on(self) -> bool:
        """Play until it is time to go (False), or until the environment failed and was made anew (True)."""
        try:
            while (plan := self._next_rollout()) is not None:
                self._play_rollout(plan)
            return False
        except Interrupted:
            return True
        except ProcessFault:
            raise
        except EnvironmentFault as fault:
            return self._mend(fault)
        except EnvironmentCheckError:
            self._link.progress.checks["environment"] = False
            raise

    def _mend(self, fault: EnvironmentFault) -> bool:
        """Make the environment anew, again and again with longer pauses; return whether to go on."""
        self._episodes_over = True
        self._environment.close_vector()
        while True:
            pause_s = self._backoff.failed()
            self._link.progress.environment_failed(fault)
            logger.error("%s It is created again in %.1f s.\n%s", fault.message, pause_s, fault.details)
            if not self._rest(pause_s):
                return False
            try:
                self._rollout.begin_anew(self._environment.make_anew())
            except EnvironmentCheckError as error:
                fault = EnvironmentFault(error.message, error.remedy)
            except ProcessFault:
                raise
            except EnvironmentFault as error:
                fault = error
            else:
                return True

    def _rest(self, pause_s: float) -> bool:
        """Wait before the environment is made anew, obeying meanwhile; return whether to go on."""
        link, until = self._link, time.monotonic() + pause_s
        while not self._stop.is_set() and not self._run_changed():
            plan = link.plan
            link.obey(plan, "restarting")
            left_s = until - time.monotonic()
            if left_s <= 0 and plan.stepping is Stepping.FREE:
                return not self._stop.is_set()
            link.wait(partial(self._another_wish, plan), max(left_s, 0.0) or None)
        return False

    def _another_wish(self, plan: Plan, _view: ServerView | None = None) -> bool:
        return self._link.plan != plan or self._run_changed() or self._link.unanswered

    def _next_rollout(self) -> RolloutPlan | None:
        """Wait until something can be played; return None when it is time to go."""
        link = self._link
        try:
            while not self._stop.is_set():
                self._log.look(time.monotonic())
                plan = link.plan
                if plan.stepping is Stepping.TO_THE_END and not self._episodes_over:
                    self._end_episodes()
                    continue
                # Between two rollouts nothing else is shown than in them.
                phase = link.progress.phase
                link.obey(plan, "waiting" if phase in _ENDED_BY_A_WISH else phase)
                # A server that describes no run has ended this one, and may resume it.
                wanted = plan.stepping is Stepping.FREE and link.view.config is not None
                link.progress.wait_for_server(wanted, time.monotonic())
                if not link.wait(partial(self._something_new, plan), _WAITING_AFTER_S):
                    if plan.stepping is Stepping.FREE and not self._stop.is_set():
                        link.set_phase("waiting")
                    continue
                if self._run_changed():
                    return None
                playable = self._playable(link.view)
                if playable is not None and link.plan.stepping is Stepping.FREE and not link.unanswered:
                    return playable
            return None
        finally:
            link.progress.wait_for_server(False, time.monotonic())

    def _end_episodes(self) -> None:
        """Let every environment end the episode it is in, unless something else is wanted meanwhile."""
        self._link.set_phase("finishing")
        self._link.answer(self._link.wish)
        self._interrupt_waiting()

        def go_on() -> bool:
            return self._link.plan.stepping is Stepping.TO_THE_END and not self._stop.is_set()

        self._episodes_over = self._rollout.end_episodes(self._mode.act, go_on)

    def _something_new(self, plan: Plan, view: ServerView) -> bool:
        # Asked in any case: it raises when this client is refused.
        ready = self._playable(view) is not None
        return (ready and plan.stepping is Stepping.FREE) or self._another_wish(plan)

    def _playable(self, view: ServerView) -> RolloutPlan | None:
        """Return what can be played of a run that goes on."""
        plan = self._mode.next_rollout(view)
        return None if view.config is None else plan

    def _run_changed(self) -> bool:
        config = self._link.view.config
        return config is not None and config.run_id != self._config.run_id

    def _play_rollout(self, plan: RolloutPlan) -> None:
        link = self._link
        heard: ServerView | None = None
        self._log_as_told()
        self._use(plan)
        self._episodes_over = False
        link.set_phase("sampling")
        model_id = digest = 0
        if plan.header is not None:
            model_id, digest = plan.header.model_id, digest_number(plan.header.digest)
        self._interrupt_waiting()

        def go_on() -> bool:
            nonlocal heard
            if self._stop.is_set() or link.plan.stepping is not Stepping.FREE:
                return False
            if link.view is not heard:
                heard = link.view
                if heard.config is None or self._run_changed() or link.unanswered:
                    return False
                self._show(link.wish.look)
                if self._remote is not None:  # no weights tell it
                    self._attempt = heard.config.attempt
            if self._remote is not None:  # nothing is yielded
                self._look(time.monotonic())
            return plan.go_on()

        rollout, act = self._rollout, self._mode.act
        with self._environment.watchdog.sampling():
            for segments in rollout.play(act, model_id, digest, plan.steps, go_on, plan.hold_s):
                self._mode.played(plan, segments.steps)
                link.progress.stepped(segments.steps)
                self._look(time.monotonic())
                chunk = pack_chunk(self._config.run_id, self._contract, segments)
                self._uploader.push_chunk(chunk, segments.steps, int(segments.model_id_first.max()))

    def _show(self, look: int) -> None:
        """Send a picture of the game, where somebody looks at it."""
        progress = self._link.progress
        if look == self._looked or not progress.shown or not self._rollout.begun:
            return
        if not self._looked:
            logger.info("the server looks at the game")
        self._looked = look
        picture = self._environment.stepper.shown()
        if picture is None:
            progress.shown = False
            return
        height, width, _ = picture.shape
        rgb = base64.b64encode(picture.tobytes()).decode()
        progress.picture = GamePicture(look=look, width=width, height=height, rgb=rgb)
        self._link.tell_soon()

    def _interrupt_waiting(self) -> None:
        """Let an answer of the inference server be waited for until something else is wanted than now."""
        plan = self._link.plan
        if self._remote is not None:
            self._remote.may_wait = lambda: not (self._stop.is_set() or self._another_wish(plan))

    def _log_as_told(self) -> None:
        """Log at another level where the run was resumed with one."""
        config = self._link.view.config
        if config is not None and config.settings.get("logging.level") != self._log_level:
            self._log_level = config.settings.get("logging.level")
            logging.getLogger().setLevel(received_settings(config.settings)["logging.level"].upper())

    def _look(self, now: float) -> None:
        self._log.look(now)
        progress = self._link.progress
        progress.step_ms = 1000 * self._environment.stepper.timer.step_s
        progress.late_steps, progress.human_steps = self._clock.late_steps, self._rollout.human_steps
        if self._backoff.works(now):
            progress.environment_works()

    def _use(self, plan: RolloutPlan) -> None:
        """Act with the weights of a plan."""
        if plan.header is None or self._policy is None or plan.header == self._loaded:
            return
        self._policy.load(plan.tensors)
        if self._loaded is None:
            with self._link.checked("network"):
                check_network(self._policy, plan.header, self._environment.spaces.observation)
        self._loaded = plan.header
        self._attempt = plan.header.attempt
        progress = self._link.progress
        progress.model_id, progress.update = plan.header.model_id, plan.header.update

    def _ended(self, episode: FinishedEpisode) -> None:
        progress = self._link.progress
        if not episode.greedy:
            number = progress.episode_ended(episode.total_return, episode.length)
            self._tell_of(episode, self._attempt, number, progress.model_id)
            self._on_episode()
        elif self._greedy is not None and (found := self._greedy.ended()) is not None:
            order, number = found
            self._tell_of(episode, order.attempt, number, order.model_id)

    def _tell_of(self, episode: FinishedEpisode, attempt: int, number: int, model_id: int) -> None:
        run_id = self._config.run_id
        message = Episode(run_id=run_id, attempt=attempt, number=number, model_id=model_id, **vars(episode))
        self._uploader.push_episode(message.to_json().encode())


class RestartBackoff:
    """Pauses that double from failure to failure, until the environment was well for a while."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._well_since: float | None = None

    def failed(self) -> float:
        """Count a failure; return the pause before the next try, seconds."""
        self._well_since = None
        pause_s: float = FIRST_S * 2.0 ** min(self._in_a_row, 30)
        self._in_a_row += 1
        return min(pause_s, LONGEST_S)

    def works(self, now: float) -> bool:
        """Take note that the environment works; return whether its failures are forgotten just now."""
        if not self._in_a_row:
            return False
        if self._well_since is None:
            self._well_since = now
        if now - self._well_since < HEALTHY_S:
            return False
        self._in_a_row = 0
        return True
