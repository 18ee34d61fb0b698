"""What all JSON messages have in common."""

from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from soulsgui.errors import printable
from soulsgui.wire.keys import is_client_name

Words = Annotated[str, AfterValidator(printable)]
"""Text of others that is shown: cut, and without control characters and line breaks."""


Moment = Annotated[float, Field(ge=0, le=32_500_000_000, allow_inf_nan=False)]
"""Seconds since the epoch, up to the year 3000: every system can make a date of them."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that can be rounded."""

LONGEST_DETAILS = 2500  # characters of a traceback that are kept: its end, where the cause stands

Details = Annotated[str, AfterValidator(lambda text: printable(text, LONGEST_DETAILS, lines=True))]
"""Several lines of others that are shown: cut, and without control characters."""


T = TypeVar("T")

MOST_LISTED = 20_000

Listed = Annotated[list[T], Field(max_length=MOST_LISTED, fail_fast=True)]
"""No more of something than a window can list; it is read up to the first that is wrong."""

Keyed = Annotated[dict[str, T], Field(max_length=MOST_LISTED)]
"""The same by name."""

CurveColumn = Annotated[list[T], Field(max_length=2**18, fail_fast=True)]
"""A number for each of many rows: no more of them than a curve is drawn from."""

Whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
"""A whole number as arrays and databases hold it, in 64 bits; it would replace bounds of a field's own."""


def _client(name: str) -> str:
    if not is_client_name(name):
        raise ValueError("not a client name")
    return name


ClientName = Annotated[str, AfterValidator(_client)]
"""What a client may be called."""


class Message(BaseModel):
    """A JSON message. Unknown fields are ignored, so that newer senders are understood."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
    most_bytes: ClassVar[int | None] = None

    def to_json(self) -> str:
        """Return the message as JSON text."""
        return self.model_dump_json()

    @classmethod
    def read(cls, data: bytes | str | None) -> Self | None:
        """Return the message in `data`, or None when there is none, it is not one, or is too large."""
        if data is None or (cls.most_bytes is not None and len(data) > cls.most_bytes):
            return None
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None


class Instance(Message):
    """Which process of which machine speaks: no two processes are equal in it."""

    model_config = ConfigDict(allow_inf_nan=False)

    host: Words = ""
    boot_id: str = ""
    pid: int = Field(0, ge=0, lt=2**32)
    start_time: float = 0.0
