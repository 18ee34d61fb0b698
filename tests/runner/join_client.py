"""Stands for the client of client mode: quick to start, obeys the owner's wishes, tells what it does.

Files in its folder steer it: `server_wish.json` (what the server wants), `crash` (it exits at once).
"""

import _thread
import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from soulsgui.system import replace
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat, Phase
from soulsgui.wire.messages.owner import ClientFolder, ClientReport, OwnEpisode, OwnerWish
from soulsgui.wire.messages.session import Wish

PERIOD_S = 0.03
RUN = "run-1"
STEPS_PER_EPISODE = 10

_PHASES: dict[str, Phase] = {"run": "sampling", "pause": "paused", "pause_after_episode": "paused"}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("role", "--name", "--server-file", "--state-dir", "--agreement"):
        parser.add_argument(name)
    options = parser.parse_args()
    folder = ClientFolder(Path(options.state_dir))
    folder.writable.mkdir(exist_ok=True)
    if (folder.root / "crash").exists():
        sys.exit("fake: crash")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: _thread.start_new_thread(stop.set, ()))
    episodes: list[OwnEpisode] = []
    counter = 0
    farewell = ""
    while not farewell:
        counter += 1
        wish = OwnerWish.read(folder.wish.read_bytes()) or OwnerWish()
        path = folder.root / "server_wish.json"
        server = Wish.read(path.read_bytes()) if path.exists() else None
        if stop.wait(PERIOD_S) or wish.state in ("stop", "stop_after_episode"):
            farewell = "asked to stop"
        elif server is not None and server.state == "stop":
            farewell = "the server asked it to stop"
        elif wish.state == "run":
            episodes.append(_episode(len(episodes)))
        phase = "stopping" if farewell else _PHASES[wish.state]
        steps = len(episodes) * STEPS_PER_EPISODE
        beat: dict[str, Any] = {"client": options.name, "counter": counter, "phase": phase, "run_id": RUN}
        beat |= {"env_id": "Toy-v0", "env_steps": steps, "env_steps_per_s": 100.0, "leaving": bool(farewell)}
        beat["instance"] = Instance(host="here", pid=os.getpid(), start_time=1.0)
        told: dict[str, Any] = {"wish": server, "episodes": episodes[-100:], "farewell": farewell}
        told["checks"] = {"configuration": True}
        report = ClientReport(beat=Heartbeat(**beat), env_steps=steps, **told)
        aside = folder.root / ".state.tmp"
        aside.write_text(report.to_json())
        replace(aside, folder.state)


def _episode(number: int) -> OwnEpisode:
    played: dict[str, Any] = {"run_id": RUN, "length": STEPS_PER_EPISODE, "total_return": float(number)}
    played |= {"number": number, "model_id": number, "env_steps": (number + 1) * STEPS_PER_EPISODE}
    return OwnEpisode(time=time.time(), **played)


if __name__ == "__main__":
    main()
