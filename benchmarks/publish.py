"""From publishing weights to having them in use in a client, against a raw SET, PUBLISH and GET.

The reference hands the bytes over as the library does it alone: unchecked, and not made into arrays.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import redis

from benchmarks.ingest import CONFIG, KEYS
from benchmarks.report import Measured, beside, run
from soulsgui.sampling.downloader import Downloader, ServerView
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.connection import Address, connect
from tests.servers import running_server

SIZES = {"10 KB": 2_500, "1 MB": 250_000, "20 MB": 5_000_000}
_TIMES = 20


class OurWay:
    """A publisher here and a downloader beside it.

    Args:
        address: The server.
        floats: Size of the weights.
    """

    def __init__(self, address: Address, floats: int) -> None:
        self._connection = connect(address)
        self._publisher = Publisher(KEYS, CONFIG)
        self._tensors = {"w": np.random.default_rng(0).normal(size=floats).astype(np.float32)}
        self._model_id = 0
        self._came = threading.Event()
        self._seen = -1
        self._downloader = Downloader(replace(address, prefix=KEYS.prefix), "bench", self._take, lambda: None)
        self._downloader.start()
        self.once()

    def _take(self, view: ServerView) -> None:
        if view.header is not None and view.tensors is not None:
            self._seen = view.header.model_id
            self._came.set()

    def once(self) -> float:
        """Return the milliseconds from the call of publish to having the tensors."""
        self._model_id += 1
        self._publisher.prepare(TrainingPosition(self._model_id, 0, 0, 0), self._tensors)
        began = time.perf_counter()
        self._publisher.publish(self._connection, {})
        while self._seen != self._model_id:
            assert self._came.wait(30.0), "the weights did not arrive"
            self._came.clear()
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """End it."""
        self._downloader.close()
        self._connection.close()


class RawWay:
    """The same bytes with the library's own commands, sent here and fetched by a thread beside, as ours are.

    Args:
        address: The server.
        floats: Size of the weights.
    """

    def __init__(self, address: Address, floats: int) -> None:
        self._blob = np.random.default_rng(0).normal(size=floats).astype(np.float32).tobytes()
        self._writer, self._reader = (
            redis.Redis(host=address.host, port=address.port, password=address.password) for _ in range(2)
        )
        self._heard: redis.client.PubSub = self._reader.pubsub(  # type: ignore[no-untyped-call]
            ignore_subscribe_messages=True
        )
        self._heard.subscribe("raw:event")
        self._heard.get_message(timeout=1)
        self._came, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._fetch)
        self._thread.start()

    def _fetch(self) -> None:
        while not self._closed:
            if self._heard.get_message(timeout=0.1) is not None:
                self._reader.get("raw:weights")
                self._came.set()

    def once(self) -> float:
        """Return the milliseconds from SET to the end of GET."""
        began = time.perf_counter()
        pipeline = self._writer.pipeline(transaction=True)
        pipeline.set("raw:weights", self._blob)
        pipeline.publish("raw:event", 1)
        pipeline.execute()
        assert self._came.wait(30.0), "the notice did not arrive"
        self._came.clear()
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        """End it."""
        self._closed = True
        self._thread.join()
        self._heard.close()
        self._reader.close()
        self._writer.close()


@contextmanager
def ways(address: Address, floats: int) -> Iterator[tuple[OurWay, RawWay]]:
    """Open both."""
    ours, raw = OurWay(address, floats), RawWay(address, floats)
    try:
        yield ours, raw
    finally:
        ours.close()
        raw.close()


def measure(quick: bool) -> list[Measured]:
    """Measure three sizes."""
    found = []
    times = 5 if quick else _TIMES
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as address:
        for name, floats in SIZES.items():
            with ways(address, floats) as (ours, raw):
                found.append(
                    beside(
                        f"publish to in use, {name}",
                        "ms",
                        lambda ours=ours: median(ours.once() for _ in range(times)),  # type: ignore[misc]
                        "SET, PUBLISH, GET",
                        lambda raw=raw: median(raw.once() for _ in range(times)),  # type: ignore[misc]
                        3 if quick else 5,
                    )
                )
    return found


if __name__ == "__main__":
    run(measure)
