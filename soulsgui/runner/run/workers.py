"""The workers of a sweep: servers that make trials beside ours, with data folders below our own.

Each makes the trials that are drawn for it in our file of sweeps (`Sweeps`), as runs of its own queue. A run
that is over is ours.
"""

import asyncio
import errno
import json
import shutil
from collections.abc import Collection

from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import SoulsGuiError
from soulsgui.process import child_env, own_command
from soulsgui.runner.events import EVENTS_FILE
from soulsgui.runner.journal import read_journal
from soulsgui.runner.run.history import server_logs
from soulsgui.runner.run.library import UNPACKED, Library
from soulsgui.runner.run.manager import RunManager
from soulsgui.runner.run.record import LIVE_STATES, interrupted
from soulsgui.runner.run.services import RunContext
from soulsgui.runner.services.processes import Adopted, Identities, ProcessTree
from soulsgui.runner.services.service import Health, ServiceSpec
from soulsgui.system import atomic_write, replace, sync_tree
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile, Event
from soulsgui.wire.messages.base import Message

ACTIVE_FILE = "active_sweep.json"

_END_S = 75.0  # a worker saves its run, and ends its own services; a command is answered within 90 s
_AGAIN_S = 60.0

_NO_WAY_IN = (
    "redis.url=", "redis.lan=false", "redis.public=false", "redis.port=0", "control.port=0",
    "exporter.enabled=false", "alerts.on=[]",
)  # fmt: skip
"""The settings of a worker where those of the user would let others in, or take what the server has."""

_AS_HERE = ("redis.binary", "redis.max_memory")
"""Settings of our server that those of workers have, too, where they do not stand in the user's file."""


class ActiveSweep(Message):
    """`active_sweep.json`: the sweep that goes on, for the next runner and for workers."""

    sweep: str
    worker: int = 1  # which of those that make its trials; the first is the server whose sweep it is
    home: str = ""  # the data folder of that server, for the others


class Workers:
    """Starts the workers of this server, takes over their runs, and ends them."""

    def __init__(self, context: RunContext, manager: RunManager, base: Layer) -> None:
        self._context, self._manager = context, manager
        self._settings = [f"{key}={json.dumps(base.values[key])}" for key in _AS_HERE if key in base.values]
        self._ours: set[int] = set()  # those that were started or adopted here

    async def start(self, sweep: str, worker: int) -> None:
        """Let a worker make trials of a sweep; one that was started before is left to its supervisor."""
        path = self._folders(worker).server / ACTIVE_FILE
        if worker in self._ours and path.exists():  # else somebody has removed its folder
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        home = str(self._context.folders.data.absolute())
        atomic_write(path, ActiveSweep(sweep=sweep, worker=worker, home=home).to_json().encode())
        await self._context.supervisor.start(self._spec(worker))
        self._ours.add(worker)

    async def adopt(self) -> None:
        """Take over those that an earlier runner left."""
        for worker in self._known():
            if await self._context.supervisor.adopt(self._spec(worker)):
                self._ours.add(worker)

    async def take_runs(self, going: Collection[str] = ()) -> None:
        """Put runs that are over into the library, and their events among ours; `going` names the others."""
        library, events = self._context.library, self._context.events
        for worker in self._known():
            folders = self._folders(worker)
            theirs = Library(folders.runs)
            for run in reversed(theirs.folders()):
                record = theirs.record(run)
                if record.name in going:
                    continue
                record = interrupted(record) if record.state in LIVE_STATES else record
                number = {"number": await asyncio.to_thread(library.next_number)}
                theirs.write_record(run, record.model_copy(update=number))
                await asyncio.to_thread(_move, run, library)
                for event in read_journal(folders.server / EVENTS_FILE, Event):
                    if event.run_id == run.run_id:
                        events.take(event)
                await self._manager.library_changed()

    async def clear(self) -> None:
        """End all, and take over what they leave."""
        events = self._context.events
        await self._context.supervisor.remove(*map(_name, self._ours))
        self._ours.clear()
        self.kill_left()
        taken = True
        try:
            await self.take_runs()
        except OSError as error:  # they stay where they are until the next time
            events.add("error", "Runs of the sweep can't be put into the library", str(error))
            taken = False
        for worker in self._known():
            theirs = self._folders(worker)
            for event in read_journal(theirs.server / EVENTS_FILE, Event):
                if event.level == "error" and not event.run_id:  # such as of a run that could not begin
                    events.take(event)
            over = theirs.data if taken else theirs.server
            await asyncio.to_thread(shutil.rmtree, over, ignore_errors=True)

    def kill_left(self) -> None:
        """End what workers have started, and had no time to end."""
        for worker in self._known():
            identities = Identities(self._folders(worker).server)
            identities.recover()
            for record in identities.all():
                Adopted(record).kill()

    def _known(self) -> list[int]:
        folders = self._context.folders.workers.glob("*")
        return sorted(int(one.name) for one in folders if one.name.isdecimal())

    def _folders(self, worker: int) -> Folders:
        ours = self._context.folders
        return Folders(ours.config, ours.workers / str(worker))

    def _spec(self, worker: int) -> ServiceSpec:
        name, theirs = _name(worker), self._folders(worker)
        control, supervisor, tree = theirs.server / CONTROL_FILE, self._context.supervisor, ProcessTree()

        def look() -> Health:
            try:
                ready = tree.includes(supervisor.pid_of(name), ControlFile.load(control).pid)
            except SoulsGuiError:
                ready = False
            return Health(ready, phase="saving" if supervisor.stopped(name) else "" if ready else "loading")

        places = ("--config-dir", str(theirs.config), "--data-dir", str(theirs.data))
        return ServiceSpec(
            name=name,
            kind="worker",
            argv=(
                *own_command("serve"),
                "--idle",
                *places,
                *(w for one in (*self._settings, *_NO_WAY_IN) for w in ("--set", one)),
            ),
            tier=2,
            log_path=server_logs(self._context.folders) / f"{name}.log",
            health=look,
            grace_s=_END_S,
            save_grace_s=_END_S,
            retry_s=_AGAIN_S,
            env=child_env(),
        )


def _move(run: RunFolder, library: Library) -> None:
    """Put a run of a worker into the library, where it appears whole or not at all."""
    library.root.mkdir(exist_ok=True)
    there = RunFolder(library.root / run.run_id)
    try:
        replace(run.root, there.root)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    # The library is on another disk. A runner may have been killed when it had copied the run.
    if not (there.run.exists() and library.record(there).created == library.record(run).created):
        aside = library.root / f"{UNPACKED}.{run.run_id}"
        try:
            copied = shutil.copytree(run.root, aside / "run", symlinks=True)
            sync_tree(copied)
            replace(copied, there.root)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    run.run.unlink()  # from now on there is no run
    shutil.rmtree(run.root, ignore_errors=True)


def _name(worker: int) -> str:
    return f"worker-{worker}"
