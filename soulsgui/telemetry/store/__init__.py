"""The store of a run, `telemetry.sqlite`: readable while it is written.

`query_history` reads it from any process and never holds up the writer; `into_buckets` and what stands beside
it make the same answer of rows in memory. `StoreWriter` belongs to the telemetry node alone.
"""

from soulsgui.telemetry.store.history import (
    as_history,
    bucket_width,
    client_names,
    into_buckets,
    played_as_asked,
    query_history,
)
from soulsgui.telemetry.store.schema import ScoreSummary, StoreError
from soulsgui.telemetry.store.writer import EpisodeRecord, StoreWriter

__all__ = [
    "EpisodeRecord",
    "ScoreSummary",
    "StoreError",
    "StoreWriter",
    "as_history",
    "bucket_width",
    "client_names",
    "into_buckets",
    "played_as_asked",
    "query_history",
]
