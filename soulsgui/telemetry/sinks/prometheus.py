"""What Prometheus reads: the state of server, run, services and clients, and what the run recorded."""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from soulsgui.errors import printable
from soulsgui.telemetry.sinks.records import Record
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, ServiceStatus, Status
from soulsgui.wire.control.states import GONE
from soulsgui.wire.messages.heartbeat import ROUND_TRIP_BOUNDS_MS, ROWS_BOUNDS
from soulsgui.wire.messages.node import STALENESS_BOUNDS

MOST_CLIENTS = 1000
"""Clients that have series of their own; more are only counted."""

_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STEPS = (1, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_LONGEST_LABEL = 120
_IN_HISTOGRAMS = {"length", "seconds"}


class _Row(NamedTuple):
    """A family with one value of each thing that is told of; `total` for counters."""

    name: str
    help: str
    value: Callable[[Any], float | None]
    total: bool = False


_RUN: tuple[_Row, ...] = (
    _Row("env_steps", "Environment steps that the run has learned from.", lambda run: run.env_steps, True),
    _Row("updates", "Updates of the agent.", lambda run: run.updates, True),
    _Row("episodes", "Finished episodes of the run.", lambda run: run.episodes, True),
    _Row("chunks_lost", "Chunks missing by their numbers.", lambda run: run.lost_chunks, True),
    _Row("attempt", "Number of the attempt.", lambda run: run.attempt),
    _Row("model_id", "Number of the newest published weights.", lambda run: run.model_id),
    _Row("mean_return", "Mean return of the last episodes (stop.window).", lambda run: run.mean_return),
    _Row("best_mean_return", "Mean return of the best model.", lambda run: run.best_mean_return),
    _Row("evaluation_return", "Mean return of the newest evaluation.", lambda run: run.evaluation_return),
    _Row(
        "policy_lag_updates",
        "Age of samples when they are learned from, in updates.",
        lambda run: run.policy_lag,
    ),
    _Row("learner_wait_ratio", "Part of the time that the trainer waits.", lambda run: run.learner_waits),
    _Row("samples_wait_ratio", "Part of the time that samples wait.", lambda run: run.clients_wait),
    _Row("run_duration_seconds", "Time that the run has been active.", lambda run: run.seconds),
    _Row("checkpoint_age_seconds", "Age of the newest checkpoint.", lambda run: run.checkpoint_age_s),
)
_SERVICE: tuple[_Row, ...] = (
    _Row("service_up", "Whether the service is running.", lambda one: one.state == "running"),
    _Row("service_restarts", "Restarts after a failure.", lambda one: one.restarts, True),
    _Row("service_uptime_seconds", "Age of its process.", lambda one: one.uptime_s),
    _Row(
        "service_cpu_usage_ratio",
        "Processor time it takes, in cores.",
        lambda one: None if one.cpu_percent is None else one.cpu_percent / 100,
    ),
    _Row("service_memory_bytes", "Memory it takes.", lambda one: one.memory_bytes),
)
_CLIENT: tuple[_Row, ...] = (
    _Row("client_up", "Whether the client is there.", lambda one: one.state not in GONE),
    _Row("client_env_steps", "Environment steps it has made for its run.", lambda one: one.env_steps, True),
    _Row("client_episodes", "Episodes it has finished.", lambda one: one.episodes, True),
    _Row("client_env_steps_per_second", "Its recent rate.", lambda one: one.env_steps_per_s),
    _Row("client_mean_return", "Mean return of its last episodes.", lambda one: one.mean_return),
    _Row("client_policy_lag_updates", "Age of its weights, in updates.", lambda one: one.lag),
    _Row("client_buffered_bytes", "Samples it has not sent yet.", lambda one: one.buffered),
    _Row("client_dropped_steps", "Steps dropped because its buffer was full.", lambda one: one.dropped, True),
    _Row("client_waits", "Times it had to wait for the server.", lambda one: one.waits, True),
    _Row("client_wait_seconds", "Time it has waited for the server.", lambda one: one.waited_s, True),
    _Row("client_env_restarts", "Environments created again.", lambda one: one.env_restarts, True),
    _Row("client_late_steps", "Steps that came late.", lambda one: one.late_steps, True),
    _Row(
        "client_step_seconds",
        "Recent mean time of a step of all its environments.",
        lambda one: None if one.step_ms is None else one.step_ms / 1000,
    ),
    _Row("client_last_seen_seconds", "Time since its last heartbeat.", lambda one: one.age_s),
)
_SERVER: tuple[_Row, ...] = (
    _Row("redis_up", "Whether Redis answers.", lambda server: server.reachable),
    _Row("redis_memory_bytes", "Memory that Redis takes.", lambda server: server.memory_bytes),
    _Row(
        "redis_memory_limit_bytes",
        "Largest amount it may take; 0: no limit.",
        lambda server: server.memory_limit_bytes,
    ),
    _Row("disk_free_bytes", "Free space of the data folder's disk.", lambda server: server.disk_free_bytes),
)


class Seen(NamedTuple):
    """What is known at a scrape: the state, None without a runner; entries of streams by client; timings."""

    status: Status | None
    queues: Mapping[str, int]
    timings_s: Mapping[str, float]


class Exposition:
    """The metrics; histograms grow by `take`, everything else is as at the moment of `text`."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()

        def histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"soulsgui_{name}", help_text, labels, buckets=buckets, registry=self._registry)

        self._lengths = histogram("episode_length_steps", "Lengths of episodes.", _STEPS)
        self._seconds = histogram("episode_duration_seconds", "Wall time of episodes.", _SECONDS)
        self._phases = histogram("update_phase_seconds", "Parts of an update.", _SECONDS, "phase")
        self._values = Gauge(
            "soulsgui_update_value", "Values of the last update.", ("metric",), registry=self._registry
        )
        self._episode = Gauge(
            "soulsgui_episode_value", "Values of the last episode.", ("metric",), registry=self._registry
        )
        self._seen = Seen(None, {}, {})

    def take(self, records: Iterable[Record]) -> None:
        """Take in what the run has recorded."""
        for record in records:
            if record.kind == "episode":
                self._lengths.observe(record.values["length"])
                self._seconds.observe(record.values["seconds"])
                for name in record.values.keys() - _IN_HISTOGRAMS:
                    self._episode.labels(name).set(record.values[name])
            elif record.kind == "update":
                for name, value in record.values.items():
                    if name.endswith("_s") and not name.endswith("_per_s"):
                        self._phases.labels(name.removesuffix("_s")).observe(value)
                    else:
                        self._values.labels(name).set(value)

    def text(self, seen: Seen) -> bytes:
        """Return the exposition."""
        self._seen = seen
        return generate_latest(self)  # it asks for nothing but `collect`

    def collect(self) -> Iterator[Metric]:
        """Iterate over all metrics: what `generate_latest` asks for."""
        yield from self._registry.collect()
        status, queues, timings_s = self._seen
        yield GaugeMetricFamily("soulsgui_up", "Whether the runner answers.", status is not None)
        if status is not None:
            yield from _of_server(status.server, status.services)
            yield from _of_run(status.run)
            yield from _of_clients(status.clients, queues)
            yield from _aliases(status, timings_s)


def _families(rows: Iterable[_Row], things: list[tuple[list[str], Any]], *labels: str) -> Iterator[Metric]:
    for row in rows:
        make = CounterMetricFamily if row.total else GaugeMetricFamily
        family = make(f"soulsgui_{row.name}", row.help, labels=labels)
        for values, thing in things:
            if (value := row.value(thing)) is not None:
                family.add_metric(values, value)
        yield family


def _of_server(server: ServerStatus, services: Iterable[ServiceStatus]) -> Iterator[Metric]:
    yield from _families(_SERVER, [([], server)])
    told = [([_label(one.name), _label(one.kind)], one) for one in services]
    yield from _families(_SERVICE, told, "service", "kind")


def _of_run(run: RunStatus) -> Iterator[Metric]:
    told = {
        name: _label(getattr(run, name)) for name in ("id", "name", "env_id", "algorithm", "agent", "state")
    }
    yield InfoMetricFamily("soulsgui_run", "The active run, or the last one.", told)
    yield from _families(_RUN, [([], run)])
    rejected = CounterMetricFamily(
        "soulsgui_segments_rejected", "Segments that were refused.", labels=["reason"]
    )
    for reason, count in run.rejected.items():
        rejected.add_metric([_label(reason)], count)
    yield rejected
    if run.staleness is not None and run.staleness.bounds == list(STALENESS_BOUNDS):
        help_text = "Age of accepted transitions, in updates."
        yield _histogram(
            "sample_staleness_updates", help_text, [([], run.staleness.accepted)], STALENESS_BOUNDS
        )


def _of_clients(clients: list[ClientStatus], queues: Mapping[str, int]) -> Iterator[Metric]:
    states = Counts(one.state for one in clients)
    counted = GaugeMetricFamily("soulsgui_clients", "Clients by their state.", labels=["state"])
    for state, count in states.items():
        counted.add_metric([_label(state)], count)
    yield counted
    shown = sorted(clients, key=lambda one: (one.state in GONE, one.id))[:MOST_CLIENTS]
    help_text = f"Clients beyond {MOST_CLIENTS}, which have no series of their own."
    yield GaugeMetricFamily("soulsgui_clients_without_series", help_text, len(clients) - len(shown))
    told = [([_label(one.id)], one) for one in shown]
    yield from _families(_CLIENT, told, "client")
    waiting = GaugeMetricFamily(
        "soulsgui_client_queue_entries", "Chunks of it that wait for the trainer.", labels=["client"]
    )
    rejected = CounterMetricFamily(
        "soulsgui_client_segments_rejected", "Segments of it that were refused.", labels=["client", "reason"]
    )
    for (name,), one in told:
        waiting.add_metric([name], queues.get(one.id, 0))
        for reason, count in one.rejected.items():
            rejected.add_metric([name, _label(reason)], count)
    yield from (waiting, rejected)
    served = [(name, one.inference) for name, one in told if one.inference is not None]
    if served:
        rows = [(name, one.rows) for name, one in served]
        yield _histogram("inference_batch_environments", "Environments in a batch.", rows, ROWS_BOUNDS)
        trips = [(name, one.round_trips) for name, one in served]
        seconds = [bound / 1000 for bound in ROUND_TRIP_BOUNDS_MS]
        yield _histogram("inference_round_trip_seconds", "Time until an answer.", trips, seconds)


def _histogram(
    name: str, help_text: str, told: Iterable[tuple[list[str], list[int]]], bounds: Iterable[float]
) -> Metric:
    """Return what others have counted in buckets; the sum takes each for as large as its bucket allows."""
    bounds = list(bounds)
    labels = ["client"] if name.startswith("inference") else []
    family = HistogramMetricFamily(f"soulsgui_{name}", help_text, labels=labels)
    for values, counts in told:
        so_far, total, buckets = 0, 0.0, []
        for bound, count in zip([*bounds, float("inf")], counts, strict=False):
            so_far += count
            total += count * min(bound, bounds[-1])
            buckets.append((f"{bound:g}" if bound != float("inf") else "+Inf", float(so_far)))
        if len(counts) == len(bounds) + 1:
            family.add_metric(values, buckets, total)
    return family


def _aliases(status: Status, timings_s: Mapping[str, float]) -> Iterator[Metric]:
    """Iterate over what SoulsAI's dashboards ask for, under its names."""
    run = status.run
    online = sum(one.state not in GONE for one in status.clients)
    yield GaugeMetricFamily("soulsai_num_workers", "Number of registered client nodes", online)
    yield CounterMetricFamily("soulsai_num_samples", "Total number of received samples", run.env_steps)
    rejected = sum(run.rejected.values())
    yield CounterMetricFamily("soulsai_num_samples_reject", "Total number of rejected samples", rejected)
    for name, help_text in (
        ("update", "Processing time for a model update"),
        ("publish", "Time required to publish the network parameters"),
    ):
        if name in timings_s:
            yield GaugeMetricFamily(f"soulsai_{name}_time", help_text, timings_s[name])


def _label(text: str) -> str:
    return printable(text, _LONGEST_LABEL)
