"""The client process: plays for whatever run the server has, until it is told to stop."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from soulsgui.environments.make import make_vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.errors import EnvironmentCheckError, SoulsGuiError
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.downloader import View
from soulsgui.sampling.identity import derived_seed
from soulsgui.sampling.link import ClientLink, Ready, check_protocol
from soulsgui.sampling.progress_log import ProgressLog, made_words
from soulsgui.sampling.rollout import FinishedEpisode, Rollout
from soulsgui.sampling.uploader import Uploader
from soulsgui.sampling.wishes import Plan, Stepping
from soulsgui.wire.connection import Address, Stopped
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.episode import Episode
from soulsgui.wire.messages.heartbeat import Phase
from soulsgui.wire.messages.owner import ClientFolder
from soulsgui.wire.messages.server_config import ON_POLICY, ServerConfig, contract_hash

logger = logging.getLogger(__name__)

_WAITING_AFTER_S = 1.0


def run_client(
    address: Address,
    name: str,
    num_envs: int | None,
    episodes: int | None,
    owner: ClientFolder | None = None,
) -> int:
    """Run a client until it is told to stop; return its exit code.

    Args:
        address: The server.
        name: The client's id.
        num_envs: Environments stepped side by side; None takes what the server's configuration says.
        episodes: Stop after so many finished episodes; None plays on.
        owner: Folder of the owner's runner, in client mode.

    Raises:
        ClientRegistrationError: The server refused this client, or its name is in use.
        EnvironmentCheckError: The environment can't be made here.
    """
    setup_logging()
    stop = stop_on_signals()
    link = ClientLink(address, name, num_envs or 1, stop, owner)
    logger.info("%s joins the server at %s:%d", name, address.host, address.port)
    try:
        link.open()
        Client(link, stop, num_envs, episodes).run()
        link.farewell = link.farewell or "asked to stop"
    except SoulsGuiError as error:
        link.progress.error = error.message
        raise
    except Stopped:
        link.farewell = "asked to stop while the server was away"
        logger.info("stopped while the server was away")
    finally:
        link.close()
        if link.farewell or link.progress.env_steps:
            why = f": {link.farewell}" if link.farewell else ""
            logger.info("left after %s%s", made_words(link.progress), why)
    return 0


def obey(link: ClientLink, stop: threading.Event, plan: Plan, idle: Phase) -> None:
    """Do what is wanted where no episode is to be ended: pause, stop, or be ready.

    Args:
        link: The tie to the server.
        stop: Set when the process should stop.
        plan: What is wanted.
        idle: What to show when nothing is in the way.
    """
    wish = link.wish
    if plan.stop:
        link.farewell = link.why_stop()
        link.set_phase("stopping")
        stop.set()
    else:
        link.set_phase(idle if plan.stepping is Stepping.FREE else "paused")
    link.answer(wish)


def unanswered(link: ClientLink) -> bool:
    """Whether the server wants something that it was not answered yet."""
    answered = link.progress.answered
    command = link.wish.command_id
    return bool(command) and (answered is None or answered.command_id != command)


class Client:
    """Plays run after run.

    Args:
        link: The tie to the server.
        stop: Set when the process should stop.
        num_envs: Environments side by side; None takes the server's setting.
        episodes: Stop after so many finished episodes; None plays on.
    """

    def __init__(
        self, link: ClientLink, stop: threading.Event, num_envs: int | None, episodes: int | None
    ) -> None:
        self._link = link
        self._stop = stop
        self._num_envs = num_envs
        self._episodes_left = episodes
        self._run_id = ""

    def run(self) -> None:
        """Wait for runs and play them."""
        while (config := self._next_run()) is not None:
            self._run_id = config.run_id
            self._play(config)
            self._link.leave_run()

    def _next_run(self) -> ServerConfig | None:
        """Wait for another run; return None when it is time to go."""
        told = False
        while not self._stop.is_set():
            plan, config = self._link.plan, self._link.view.config
            obey(self._link, self._stop, plan, "waiting")
            if plan.stepping is Stepping.FREE and config is not None and config.run_id != self._run_id:
                return config
            if not told:
                told = True
                logger.info("waiting for a run")
            self._link.wait(partial(self._something_new, plan, config))
        return None

    def _something_new(self, plan: Plan, config: ServerConfig | None, view: View) -> bool:
        return self._link.plan != plan or view.config != config or unanswered(self._link)

    def _play(self, config: ServerConfig) -> None:
        with self._link.checked("version"):
            check_protocol(config)
        with self._link.checked("environment"):
            player = RunPlayer(self._link, self._stop, config, self._num_envs, self._count_episode)
        player.play()

    def _count_episode(self) -> None:
        if self._episodes_left is not None:
            self._episodes_left -= 1
            if self._episodes_left <= 0:
                self._link.farewell = "has played its episodes"
                self._stop.set()


class RunPlayer:
    """Plays for one run, round after round.

    Args:
        link: The tie to the server.
        stop: Set when the process should stop.
        config: The run.
        num_envs: Environments side by side; None takes the run's setting.
        on_episode: Called after each finished episode.

    Raises:
        EnvironmentCheckError: The environment can't be made here, or differs from the server's.
    """

    def __init__(
        self,
        link: ClientLink,
        stop: threading.Event,
        config: ServerConfig,
        num_envs: int | None,
        on_episode: Callable[[], None],
    ) -> None:
        self._link = link
        self._stop = stop
        self._config = config
        self._on_episode = on_episode
        settings = config.settings
        logging.getLogger().setLevel(settings["logging.level"].upper())
        env = settings["env.id"], settings["env.kwargs"], settings["env.wrappers"]
        count = num_envs or int(settings["env.num_envs"])
        link.progress.env_id, link.progress.num_envs = settings["env.id"], count
        self._attempt = config.attempt
        self._episodes_over = True
        self._round, self._left = -1, 0
        self._policy = NumpyMLPPolicy(config.policy)
        self._log = ProgressLog(link.progress, time.monotonic())
        vector = make_vector(*env, count)
        try:
            spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
            self._contract = contract_hash(*env, spaces.to_json(), ON_POLICY)
            if self._contract != config.contract:
                raise EnvironmentCheckError(
                    f"{settings['env.id']} has other spaces here than on the server.",
                    "Install the same version of the environment's package on both.",
                )
            seed = derived_seed(config.seed, link.progress.client, config.attempt)
            self._rollout = Rollout(
                EnvStepper(vector), spaces.observation, settings["client.segment_length"], seed, self._ended
            )
        except BaseException:
            vector.close()
            raise

    def play(self) -> None:
        """Play until the run changes or the process should stop."""
        try:
            buffer_bytes = int(self._config.settings["client.buffer_bytes"])
            self._uploader = self._link.enter(self._config, self._contract, buffer_bytes)
            progress = self._link.progress
            logger.info("plays %s × %d for run %s", progress.env_id, progress.num_envs, progress.run_id)
            while (ready := self._next_round()) is not None:
                self._play_round(ready, self._uploader)
        finally:
            self._rollout.close()

    def _next_round(self) -> Ready | None:
        """Wait for a round that is not played to its end; return None when it is time to go."""
        link = self._link
        while not self._stop.is_set():
            self._log.look(time.monotonic())
            plan = link.plan
            if plan.stepping is Stepping.TO_THE_END and not self._episodes_over:
                self._end_episodes()
                continue
            obey(link, self._stop, plan, self._idle_phase)
            if not link.wait(partial(self._something_new, plan), _WAITING_AFTER_S):
                if plan.stepping is Stepping.FREE and not self._stop.is_set():
                    link.set_phase("waiting")
                continue
            if self._run_changed():
                return None
            ready = link.ready_round(link.view, self._played)
            if ready is not None and link.plan.stepping is Stepping.FREE:
                return ready
        return None

    @property
    def _idle_phase(self) -> Phase:
        """What to show until the next round: between two rounds nothing else than in them."""
        phase = self._link.progress.phase
        return "waiting" if phase in ("paused", "finishing") else phase

    def _end_episodes(self) -> None:
        """Let every environment end the episode it is in, unless something else is wanted meanwhile."""
        self._link.set_phase("finishing")
        self._link.answer(self._link.wish)

        def go_on() -> bool:
            return self._link.plan.stepping is Stepping.TO_THE_END and not self._stop.is_set()

        self._episodes_over = self._rollout.end_episodes(self._policy, go_on)

    @property
    def _played(self) -> int:
        """Id of the round that was played to its end, -1 for none: a short pause does not miss a round."""
        return -1 if self._left else self._round

    def _something_new(self, plan: Plan, view: View) -> bool:
        link = self._link
        # Asked in any case: it raises when this client is refused.
        ready = link.ready_round(view, self._played) is not None
        wanted = plan.stepping is Stepping.FREE
        return (ready and wanted) or link.plan != plan or self._run_changed() or unanswered(link)

    def _run_changed(self) -> bool:
        config = self._link.view.config
        return config is not None and config.run_id != self._config.run_id

    def _play_round(self, ready: Ready, uploader: Uploader) -> None:
        progress, share = self._link.progress, ready.share
        self._policy.load(ready.tensors)
        self._attempt = ready.header.attempt
        progress.model_id, progress.update = share.round_id, ready.header.update
        self._episodes_over = False
        self._link.set_phase("sampling")

        def go_on() -> bool:
            header = self._link.view.header
            still = header is not None and header.model_id == share.round_id
            return still and not self._stop.is_set() and self._link.plan.stepping is Stepping.FREE

        if share.round_id != self._round:
            self._round, self._left = share.round_id, share.steps_per_env * progress.num_envs
        digest = digest_number(ready.header.digest)
        for segments in self._rollout.play(self._policy, share.round_id, digest, self._left, go_on):
            self._left -= segments.steps
            progress.stepped(segments.steps)
            self._log.look(time.monotonic())
            uploader.push_chunk(pack_chunk(self._config.run_id, self._contract, segments))

    def _ended(self, episode: FinishedEpisode) -> None:
        progress = self._link.progress
        number = progress.episode_ended(episode.total_return, episode.length)
        message = Episode(
            run_id=self._config.run_id,
            attempt=self._attempt,
            number=number,
            env_index=episode.env_index,
            total_return=episode.total_return,
            length=episode.length,
            terminated=episode.terminated,
            model_id=progress.model_id,
            seconds=episode.seconds,
        )
        self._uploader.push_episode(message.to_json().encode())
        self._on_episode()
