"""The processes that compute each gradient together (`rl.gradients.shared`), on several GPUs or none.

    trainer ─ its standard input: what to do ─▶ `soulsgui learner`, one for each further GPU
    trainer ◀─ torch.distributed: parameters, batches, sums ─▶ all of them

They live and die together: when one of them ends, so does the trainer, which saves what it has learned and is
started again as after any failure.
"""

import contextlib
import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, BinaryIO, NamedTuple

import psutil
import torch
from torch import Tensor, distributed

from soulsgui.config.layers import as_settings
from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.process import child_env, leave, own_command, setup_logging
from soulsgui.rl.agents.base import Agent
from soulsgui.system import kill_tree
from soulsgui.training.agents import make_agent
from soulsgui.wire.codec import CodecError, receive, send

logger = logging.getLogger(__name__)

READY = b"ready\n"
_LONGEST_STEP = timedelta(minutes=10)
_READY_WITHIN_S = 120.0
_END_WITHIN_S = 3.0
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Where torch reads which network interface its processes are to meet on."""

_TOLD_WITHIN_S = 1.0
NOTICE_WITHIN_S = 10.0  # how long a process may wait for another that is gone; then it is ended from outside


class LearnerLostError(SoulsGuiError):
    """A process that computes gradients with the trainer is gone."""


class Begin(NamedTuple):
    """What a helper is told first."""

    settings: dict[str, Any]
    spaces: dict[str, Any]
    device: str
    rank: int
    size: int
    port: int
    threads: int


@contextlib.contextmanager
def learning_together(settings: Settings, spaces: SpacesSpec, agent: Agent, device: str) -> Iterator[None]:
    """Let `learner.processes` compute the gradients of an agent for as long as this lasts, and no longer."""
    if settings.learner.processes == 1:
        yield
        return
    leader = Leader(settings, spaces, device)
    try:
        leader.gather()
        agent.share(leader)
        yield
    finally:
        leader.close()


class GradientMember:
    """What the leader and the helpers have in common."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._waits = False  # for the others

    def broadcast_(self, tensor: Tensor) -> None:
        """Give all helpers the leader's numbers, in place."""
        with self._noticing():
            distributed.broadcast(tensor, 0)

    def reduce_(self, tensor: Tensor) -> None:
        """Give the leader the sum over all, in place."""
        with self._noticing():
            distributed.reduce(tensor, 0)

    def all_reduce_(self, tensor: Tensor) -> None:
        """Give everybody the sum over all, in place."""
        with self._noticing():
            distributed.all_reduce(tensor)

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        self._waits = True
        try:
            yield
        except (RuntimeError, OSError) as error:
            raise self._lost(error) from error
        finally:
            self._waits = False

    def meeting(self, port: int, listening: int | None = None) -> Any:
        """Return where the processes find each other."""
        return distributed.TCPStore(  # type: ignore[attr-defined]
            "127.0.0.1",
            port,
            self.size,
            is_master=listening is not None,
            timeout=_LONGEST_STEP,
            wait_for_workers=False,
            master_listen_fd=listening,
        )

    def _lost(self, error: Exception) -> LearnerLostError:
        return LearnerLostError(f"The learner processes have lost their connection: {error}")

    def join(self, store: Any, device: str) -> None:
        """Meet the others."""
        on_gpu = device != "cpu"
        with self._noticing():
            distributed.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=store,
                rank=self.rank,
                world_size=self.size,
                timeout=_LONGEST_STEP,
                device_id=torch.device("cuda", self.rank) if on_gpu else None,
            )


class Leader(GradientMember):
    """The trainer's side: starts the others, tells them what to do, ends them."""

    def __init__(self, settings: Settings, spaces: SpacesSpec, device: str) -> None:
        super().__init__(0, settings.learner.processes)
        self._device = device
        self._closing, self._closed, self._gone = (threading.Event() for _ in range(3))
        self._named_here: list[str] = []
        self._reason = ""  # why somebody is gone
        self._watches: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        # Bound here, to this computer alone: torch would let everybody in.
        listening = socket.create_server(("127.0.0.1", 0))
        self._port = listening.getsockname()[1]
        self._store = self.meeting(self._port, listening.detach())
        self._begins = [
            Begin(
                settings.model_dump(mode="json"),
                spaces.to_json(),
                device if device == "cpu" else f"cuda:{rank}",
                rank,
                self.size,
                self._port,
                torch.get_num_threads(),
            )
            for rank in range(1, self.size)
        ]

    def gather(self) -> None:
        """Start the others and wait until all are there."""
        found = psutil.net_if_addrs().items()
        loopback = [card for card, each in found if any(one.address == "127.0.0.1" for one in each)]
        for name in _INTERFACES:
            if name not in os.environ:
                os.environ[name] = loopback[0] if loopback else "lo"
                self._named_here.append(name)
        for begin in self._begins:
            process = subprocess.Popen(
                own_command("learner"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | child_env(),
            )
            self._processes.append(process)
            # As text: limits of each pixel are longer lists than the codec takes.
            self._say(process, {"begin": json.dumps(begin._asdict())})
        for rank, process in enumerate(self._processes, 1):
            assert process.stdout is not None
            late = threading.Timer(_READY_WITHIN_S, process.kill)
            late.start()
            said = process.stdout.readline()
            late.cancel()
            late.join()
            if said != READY:
                raise LearnerLostError(
                    f"{self._named(rank)} ended with code {process.wait()} before it was ready.",
                    "Its output is above this line in the trainer's log.",
                )
        for rank, process in enumerate(self._processes, 1):
            watch = threading.Thread(target=self._watch, args=(rank, process), daemon=True, name="watch")
            watch.start()
            self._watches.append(watch)
        self.join(self._store, self._device)
        for begin, process in zip(self._begins, self._processes, strict=True):
            logger.info("process %d learns on %s (pid %d)", begin.rank + 1, begin.device, process.pid)
        logger.info("%d processes learn together", self.size)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell all others."""
        for process in self._processes:
            self._say(process, message)

    def told(self) -> None:
        """Nobody tells the leader anything."""

    def close(self) -> None:
        """End the others: they have nothing more to do."""
        self._waits = True
        if self._device != "cpu" and not self._gone.is_set():
            torch.cuda.synchronize()  # what they have begun with us, they end
        self._closing.set()
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self._processes:
            try:
                process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                kill_tree(process.pid)
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        self._store = None  # nobody listens any more
        self._closed.set()
        for watch in self._watches:
            watch.join()
        for name in self._named_here:
            del os.environ[name]

    def _say(self, process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        try:
            send(process.stdin, message)
        except OSError as error:
            raise self._lost(error) from error

    def _named(self, rank: int) -> str:
        return f"Process {rank + 1} of the {self.size} that learn together"

    def _watch(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a process; see that the trainer ends then, whatever it waits for."""
        code = process.wait()
        if self._closing.is_set():
            return
        self._reason = f"{self._named(rank)} ended with code {code}."
        logger.error("%s", self._reason)
        self._gone.set()
        while not self._closed.wait(NOTICE_WITHIN_S):
            if self._waits:  # it would for long; while the trainer does something else it will hear of it
                leave(1)

    def _lost(self, error: Exception) -> LearnerLostError:
        if self._gone.wait(_TOLD_WITHIN_S):
            return LearnerLostError(self._reason)
        return super()._lost(error)


class Helper(GradientMember):
    """The side of a process that the trainer has started."""

    def __init__(self, begin: Begin, source: BinaryIO) -> None:
        super().__init__(begin.rank, begin.size)
        self._source = source
        self._told: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True, name="listen").start()

    def tell(self, message: Mapping[str, Any]) -> None:
        """A helper tells nobody anything."""

    def told(self) -> Mapping[str, Any] | None:
        """Wait for what the leader tells; None: there is nothing more to do."""
        return self._told.get()

    def _listen(self) -> None:
        """Take what comes until the leader is gone; this process then ends, whatever it waits for."""
        with contextlib.suppress(OSError, CodecError):
            while (message := receive(self._source)) is not None:
                self._told.put(message)
        self._told.put(None)
        timer = threading.Timer(NOTICE_WITHIN_S, leave, (1,))
        timer.daemon = True
        timer.start()


def run_learner() -> int:
    """Compute parts of gradients until standard input ends; return the exit code."""
    setup_logging()
    source = sys.stdin.buffer
    # Networks print what they like; the answer has standard output to itself.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0) as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            message = receive(source)
            if message is None:  # the trainer is gone already
                return 0
            begin = Begin(**json.loads(message["begin"]))
        except (ValueError, LookupError, TypeError, OSError) as error:
            logger.error("this is started by a trainer, which tells it what to do: %s", error)
            return UsageError.exit_code
        torch.set_num_threads(begin.threads)
        if begin.device != "cpu":
            torch.cuda.set_device(begin.device)
        try:
            settings, spaces = as_settings(begin.settings), SpacesSpec.from_json(begin.spaces)
            agent = make_agent(settings.algorithm, settings, spaces, begin.device)
            output.write(READY)
            helper = Helper(begin, source)
            helper.join(helper.meeting(begin.port), begin.device)
            agent.share(helper).serve()
            if begin.device != "cpu":
                torch.cuda.synchronize()  # the trainer waits for what was begun
        except LearnerLostError as error:
            logger.error("%s", error.message)
            return error.exit_code
        except Exception:  # the trainer's log is where it is looked for; a thread still reads standard input
            logger.exception("a part of a gradient could not be computed")
            return 1
    return 0
