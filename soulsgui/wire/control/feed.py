"""What the control API's feed sends."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from soulsgui.wire.control.states import (
    ClientStatus,
    Event,
    Job,
    LogLine,
    RunStatus,
    ServerStatus,
    ServiceStatus,
    Status,
)
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import Row


class Snapshot(Message):
    """Everything, at the beginning of a feed or after a gap."""

    type: Literal["snapshot"] = "snapshot"
    cursor: int
    status: Status
    events: list[Event] = Field(default_factory=list)


class StatusChange(Message):
    """Run, services and server, whenever one changed (at most a few times a second)."""

    type: Literal["status"] = "status"
    cursor: int
    run: RunStatus
    services: list[ServiceStatus]
    server: ServerStatus


class ClientsChange(Message):
    """Clients whose status changed, and those that were forgotten."""

    type: Literal["clients"] = "clients"
    cursor: int
    changed: list[ClientStatus]
    removed: list[str] = Field(default_factory=list)


class RowsChange(Message):
    """New rows of the curves of a run."""

    type: Literal["rows"] = "rows"
    cursor: int
    rows: list[Row]


class EventChange(Message):
    """A new event."""

    type: Literal["event"] = "event"
    cursor: int
    event: Event


class LogChange(Message):
    """New log lines."""

    type: Literal["log"] = "log"
    cursor: int
    lines: list[LogLine]


class JobChange(Message):
    """A job moved on."""

    type: Literal["job"] = "job"
    cursor: int
    job: Job


FeedMessage = Annotated[
    Snapshot | StatusChange | ClientsChange | RowsChange | EventChange | LogChange | JobChange,
    Field(discriminator="type"),
]
FEED_MESSAGE: TypeAdapter[FeedMessage] = TypeAdapter(FeedMessage)
