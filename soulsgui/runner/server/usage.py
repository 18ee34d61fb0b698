"""What takes the disk, the memory of Redis, and the network."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.runner.run.library import tree_bytes
from soulsgui.system import free_disk_bytes
from soulsgui.wire import control

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner

_ANY = RunFolder(Path())
_KINDS = {
    "checkpoints": (
        _ANY.checkpoint,
        _ANY.previous,
        _ANY.best_model,
        _ANY.manual_saves,
        _ANY.history,
        _ANY.evaluated,
    ),
    "bin": (_ANY.trash,),
    "memory": (_ANY.replay,),
    "curves": (_ANY.store, _ANY.series, _ANY.figure),
    "logs": (_ANY.logs,),
}
"""What is in the folder of a run, by kind; the rest is `other`."""

_KIND_OF = {path.name: kind for kind, paths in _KINDS.items() for path in paths}


async def usage(runner: "Runner", _params: control.Empty) -> control.Usage:
    """Measure it."""
    runs = await asyncio.to_thread(_runs, runner)
    thrown = await asyncio.to_thread(tree_bytes, runner.folders.trash)
    server = await asyncio.to_thread(tree_bytes, runner.folders.server)
    keys = runner.bus.keys
    clients = []
    for client in sorted(runner.roster.ids()):
        stored = await runner.bus.call(partial(_stored, keys.of_client(client)))
        beat = runner.roster.beat(client)
        sent, rate = (0, 0.0) if beat is None else (beat.sent_bytes, beat.env_steps_per_s)
        clients.append(control.ClientUsage(id=client, sent_bytes=sent, steps_per_s=rate, stored_bytes=stored))
    told = runner.server_state.server
    return control.Usage(
        runs=sorted(runs, key=lambda run: -sum(run.bytes.values())),
        bin_bytes=thrown,
        server_bytes=server,
        disk_free_bytes=free_disk_bytes(runner.folders.data),
        memory_bytes=told.memory_bytes,
        memory_limit_bytes=told.memory_limit_bytes,
        clients=sorted(clients, key=lambda one: -max(one.sent_bytes, one.stored_bytes)),
    )


def _stored(names: Iterable[str], connection: redis.Redis) -> int:
    pipeline = connection.pipeline(transaction=False)
    for name in names:
        pipeline.memory_usage(name, samples=0)
    return sum(size or 0 for size in pipeline.execute())


def _runs(runner: "Runner") -> list[control.RunUsage]:
    found = []
    for run in runner.library.folders():
        sizes: dict[str, int] = {}
        for path in run.root.iterdir():
            kind = _KIND_OF.get(path.name.removesuffix("-wal").removesuffix("-shm"), "other")
            sizes[kind] = sizes.get(kind, 0) + tree_bytes(path)
        found.append(control.RunUsage(id=run.run_id, name=runner.library.record(run).name, bytes=sizes))
    return found
