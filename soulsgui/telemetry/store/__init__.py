"""The store of a run, `telemetry.sqlite`: readable while it is written.

`query_history` and `summary` read it from any process and never hold up the writer; `StoreWriter` belongs to
the telemetry node alone.
"""

from soulsgui.telemetry.store.history import query_history
from soulsgui.telemetry.store.schema import StoreError
from soulsgui.telemetry.store.standing import Standing
from soulsgui.telemetry.store.summary import StoreSummary, summary
from soulsgui.telemetry.store.writer import EpisodeRecord, StoreWriter

__all__ = [
    "EpisodeRecord",
    "Standing",
    "StoreError",
    "StoreSummary",
    "StoreWriter",
    "query_history",
    "summary",
]
