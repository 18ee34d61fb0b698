"""Stands for the services of a run: quick to start, obedient, with the real messages on the real server.

Files in the run's folder steer it: `crash` (the trainer exits at once), `deaf` (it does not stop when asked
to), `refuses` (it takes no settings over), `verdict.json` (what telemetry says), `says.json` (what else the
trainer says).
"""

import _thread
import argparse
import hashlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from redis.backoff import ConstantBackoff
from redis.retry import Retry

from soulsgui.config.paths import RunFolder
from soulsgui.system import replace_dir
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Answer, Heartbeat
from soulsgui.wire.messages.live import LiveChange, read_changes
from soulsgui.wire.messages.metrics import ROW_FIELD, UpdateRow
from soulsgui.wire.messages.node import NodeState, Verdict
from soulsgui.wire.messages.session import Wish
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand

PERIOD_S = 0.03
STEPS_PER_TICK = 100
PATIENT = "FAKE_PATIENT"
"""Where this variable is set, a lost server is waited for, as the real programs do."""

CHECKING = "FAKE_CHECKING"
"""This variable names a file: while it is there, the check of the environment goes on."""

REPORT = "FAKE_REPORT"
"""This variable holds what the check says at its end."""

LOADING = "FAKE_LOADING"
"""Where this variable names a file, the trainer begins once that is gone."""


class UntilStopped(ConstantBackoff):
    """Waits for a lost server until it is asked to stop."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(0.1)
        self._stop = stop

    def compute(self, failures: int) -> float:
        if self._stop.is_set():
            sys.exit("fake: stopped while the server was away")
        return super().compute(failures)

    def __deepcopy__(self, _memo: object) -> "UntilStopped":
        return self  # each connection gets a copy, and all of them stop at once


class Program:
    def __init__(self, options: argparse.Namespace) -> None:
        address = Address.read(options.server_file)
        self.stop = threading.Event()
        self.redis = connect(address)
        if os.environ.get(PATIENT):
            self.redis.set_retry(Retry(UntilStopped(self.stop), 1000))
        self.keys = Keys(address.prefix)
        self.run = RunFolder(options.run) if options.run else None
        self.name = options.name
        self.tick = 0
        self.instance = Instance(host="here", pid=os.getpid())
        for number in (signal.SIGTERM, signal.SIGINT):
            # Setting the event here would wait for a lock that the interrupted `wait` may hold.
            signal.signal(number, lambda *_: _thread.start_new_thread(self.stop.set, ()))

    @property
    def steps(self) -> int:
        return self.tick * STEPS_PER_TICK

    def trainer(self) -> None:
        if (self.run.root / "crash").exists():
            sys.exit("fake: crash")
        while Path(os.environ.get(LOADING, "")).is_file() and not self.stop.wait(PERIOD_S):
            pass
        goal = json.loads(self.run.config.read_text())["stop"]["env_steps"]
        reader = CommandReader(self.keys, "trainer")
        self.saved, self.paused = None, self.run.paused.exists()
        self.waits_until, self.why = 0.0, ""
        while not self.stop.wait(PERIOD_S) or (self.run.root / "deaf").exists():
            self.tick += 1
            for command in reader.poll(self.redis):
                reader.answer(self.redis, self.obey(command))
                self.saved = self.steps
            self.say_trainer(stop_reached=goal is not None and self.steps >= goal)
            row: dict[str, Any] = dict.fromkeys(("update", "episodes", "model_id"), self.tick)
            row |= {"run_id": self.run.run_id, "attempt": 1, "previous": self.tick - 1}
            row |= {"env_steps": self.steps, "time": time.time(), "values": {"loss": 1.0 / self.tick}}
            self.redis.xadd(self.keys.metrics, {ROW_FIELD: UpdateRow(**row).to_json()})
        save(self.run.checkpoint, self.run, "current", self.steps)
        self.say_trainer(farewell="ended as asked")

    def say_trainer(self, **more: Any) -> None:
        says = self.run.root / "says.json"
        more |= json.loads(says.read_text()) if says.exists() else {}
        more |= {"phase": "paused", "detail": "by request"} if self.paused else {"phase": "collecting"}
        more |= {"phase": "paused", "detail": self.why} if time.monotonic() < self.waits_until else {}
        more |= {"attempt": 1, "model_id": self.tick, "updates": self.tick, "env_steps_per_s": 100.0}
        self.say("trainer", env_steps=self.steps, checkpoint_env_steps=self.saved, **more)

    def say(self, node: str, **fields: Any) -> None:
        state = NodeState(name=node, instance=self.instance, tick=self.tick, run_id=self.run.run_id, **fields)
        self.redis.set(self.keys.node(node), state.to_json())

    def obey(self, command: NodeCommand) -> NodeAnswer:
        if command.command in ("pause", "continue"):
            self.paused = command.command == "pause"
            return NodeAnswer(id=command.id, ok=True)
        if command.command == "wait":
            self.waits_until, self.why = time.monotonic() + command.args["seconds"], command.args["why"]
            return NodeAnswer(id=command.id, ok=True)
        if command.command in ("rest", "release", "hold"):
            return NodeAnswer(id=command.id, ok=True)
        if command.command == "configure":
            if (self.run.root / "refuses").exists():
                return NodeAnswer(id=command.id, ok=False, error="the disk is full")
            values = command.args["values"]
            known = {"ppo.learning_rate": 1e-3, "evaluation.episodes": 10}
            for one in read_changes(self.run.changes):
                known |= one.after
            about = {"time": time.time(), "attempt": 1, "update": self.tick, "env_steps": self.steps}
            change = LiveChange(
                **about,
                before={key: known[key] for key in values},
                after=values,
                undoes=command.args["undoes"],
            )
            change.append_to(self.run.changes)
            return NodeAnswer(id=command.id, ok=True, result=change.model_dump())
        if command.command == "purge":
            return NodeAnswer(id=command.id, ok=True, result={"transitions": 7})
        kind = command.args.get("kind", "current")
        if kind == "best" and command.args["model_id"] < 0:
            return NodeAnswer(id=command.id, ok=False, error="that model is gone")
        targets = {
            "best": self.run.best_model,
            "current": self.run.checkpoint,
            "manual": self.run.manual_saves / str(time.time_ns()),
            "watched": self.run.watched / "aside",
        }
        args = command.args
        save(targets[kind], self.run, kind, self.steps, args.get("model_id") or self.tick, args.get("score"))
        if args.get("note"):
            (targets[kind] / "note.txt").write_text(args["note"])
        if command.command == "stop":
            self.stop.set()
        path = targets[kind].relative_to(self.run.root).as_posix()
        return NodeAnswer(id=command.id, ok=True, result={"path": path})

    def telemetry(self) -> None:
        while not self.stop.wait(PERIOD_S):
            self.tick += 1
            self.say_telemetry()
        self.say_telemetry("ended as asked")

    def say_telemetry(self, farewell: str = "") -> None:
        path = self.run.root / "verdict.json"
        verdict = Verdict.read(path.read_bytes()) if path.exists() else None
        told: dict[str, Any] = {
            "phase": "collecting",
            "attempt": 1,
            "episodes": self.tick,
            "verdict": verdict,
        }
        told["mean_return"] = verdict.best_score if verdict is not None else None
        self.say("telemetry", farewell=farewell, **told)

    def evaluator(self) -> None:
        while not self.stop.wait(PERIOD_S):
            self.tick += 1
            self.say("evaluator")

    def client(self) -> None:
        answered = None
        phase = "sampling"
        while not self.stop.wait(PERIOD_S):
            wish = Wish.read(self.redis.get(self.keys.wish(self.name)))  # type: ignore[arg-type]
            if wish is not None:
                answered = Answer(command_id=wish.command_id, ok=True)
                phase = "paused" if wish.state == "pause" else "sampling"
                if wish.state in ("finish", "stop"):
                    self.stop.set()
            self.beat(phase, answered)
        self.beat("stopping", answered, leaving=True)

    def beat(self, phase: str, answered: Answer | None, leaving: bool = False) -> None:
        self.tick += 1
        beat: dict[str, Any] = {"client": self.name, "instance": self.instance, "counter": self.tick}
        beat |= {"phase": phase, "env_steps": self.steps, "answered": answered, "leaving": leaving}
        self.redis.set(self.keys.beat(self.name), Heartbeat(**beat).to_json(), ex=EXPIRY_S)


def save(
    target: Path,
    run: RunFolder,
    kind: str,
    steps: int,
    model_id: int = 0,
    score: float | None = None,
    scored_by: str = "",
    learner: tuple[str, str] = ("ppo", ""),
) -> None:
    """Write a checkpoint as the trainer does."""
    aside = target.with_name(f".{target.name}.new")
    aside.mkdir(parents=True)
    data = os.urandom(64)
    (aside / "weights.safetensors").write_bytes(data)
    manifest: dict[str, Any] = {"format": 1, "run_id": run.run_id, "attempt": 1}
    manifest |= {"algorithm": learner[0], "agent": learner[1]}
    manifest |= {"model_id": model_id, "updates": steps // 100, "env_steps": steps, "episodes": 0}
    manifest |= {"env_id": "CartPole-v1", "spaces": {}, "policy": {}, "kind": kind, "created": time.time()}
    manifest |= {"score": score, "scored_by": scored_by, "resumable": kind != "best"}
    file = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    manifest["files"] = {"weights.safetensors": file}
    (aside / "manifest.json").write_text(json.dumps(manifest))
    replace_dir(aside, target)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["trainer", "telemetry", "evaluator", "client", "probe"])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--server-file", type=Path)
    parser.add_argument("--name", default="")
    options = parser.parse_args()
    if options.role == "probe":
        sys.stdout.write('{"doing": "step 1"}\n')
        sys.stdout.flush()
        while Path(os.environ.get(CHECKING, "")).is_file():
            time.sleep(PERIOD_S)
        sys.stdout.write(os.environ.get(REPORT, '{"report": {"spaces": {"observation": {}, "action": {}}}}'))
        return
    getattr(Program(options), options.role)()


if __name__ == "__main__":
    main()
