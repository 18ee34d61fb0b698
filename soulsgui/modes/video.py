"""Pictures of an evaluation for people: a video file, and single pictures as JPEG."""

import io
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.installing import how_to_install

if TYPE_CHECKING:  # whether a video can be made is said before Gymnasium is imported
    from soulsgui.modes.evaluate import Frame

MP4, GIF = ".mp4", ".gif"

_LONGEST_SIDE = 640  # of a JPEG, pixels
_LONGEST_GIF_SIDE = 400
_JPEG_QUALITY = 80
_MOST_FRAMES = 200_000  # of a video: an hour of the quickest environment
_MOST_GIF_PIXELS = 150_000_000  # they are all in memory until it is written
_GIF_RATE = 20.0  # most pictures in a second: quicker ones are shown slowly by browsers

Picture = NDArray[np.uint8]


class NoVideoError(SoulsGuiError):
    """What a video, or a picture, would be made with is not installed."""


def check_video(name: str) -> None:
    """Make sure that a video of this name can be made here, as far as that is known without one."""
    suffix = Path(name).suffix.lower()
    if suffix not in (MP4, GIF):
        raise UsageError(f"{name}: a video's name should end with {MP4} or {GIF}.")
    if suffix == MP4 and find_spec("av") is None:
        raise NoVideoError(
            f"{name} can't be made: PyAV is not installed.",
            f"Install it: {how_to_install('av')}. Or name a {GIF}, which does not need it.",
        )
    if suffix == GIF:
        check_pictures()


def check_pictures() -> None:
    """Make sure that pictures can be packed here."""
    if find_spec("PIL") is None:
        raise NoVideoError(
            "Pictures can't be packed: Pillow is not installed.", f"Install it: {how_to_install('PIL')}"
        )


def jpeg(picture: Picture) -> bytes:
    """Return a picture as JPEG, made smaller where it is large."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    written = io.BytesIO()
    image.save(written, "JPEG", quality=_JPEG_QUALITY)
    return written.getvalue()


class _Writer(Protocol):
    def add(self, picture: Picture) -> bool: ...

    def close(self, whole: bool) -> None: ...


class Video:
    """A video that is being made.

    Attributes:
        left_out: How many pictures at its end did not fit into it.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.left_out = 0
        self._path, self._kind = path, kind
        self._taken = 0
        self._writer: _Writer | None = None
        self._shape = (0, 0)

    def add(self, frame: "Frame") -> None:
        """Put a frame at its end; one of another size is cut, or gets a black edge."""
        if self._writer is None:
            self._shape = frame.picture.shape[:2]
            make = _Mp4 if self._kind == MP4 else _Gif
            self._writer = make(self._path, frame.rate, self._shape)
        if self._taken == _MOST_FRAMES or not self._writer.add(_fitting(frame.picture, self._shape)):
            self.left_out += 1
        else:
            self._taken += 1

    @property
    def words(self) -> str:
        """Words about what is not in it; empty when everything is."""
        if not self.left_out:
            return ""
        hint = f"; an {MP4} holds more" if self._kind == GIF else ""
        return f"the last {self.left_out:,} pictures are not in the video, which would be too long{hint}"

    def close(self, whole: bool) -> None:
        """Write its end, if it is to be kept."""
        if self._writer is not None:
            self._writer.close(whole)


@contextmanager
def video(path: Path) -> Iterator[Video]:
    """Make a video, which is there once it is whole; what is there under its name meanwhile is replaced."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")  # where others write, too
    made = Video(aside, path.suffix.lower())
    try:
        try:
            yield made
        except BaseException:
            made.close(whole=False)
            raise
        made.close(whole=True)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _fitting(picture: Picture, shape: tuple[int, int]) -> Picture:
    if picture.shape[:2] == shape:
        return picture
    height, width = (min(ours, theirs) for ours, theirs in zip(picture.shape[:2], shape, strict=True))
    fitting = np.zeros((*shape, 3), np.uint8)
    fitting[:height, :width] = picture[:height, :width]
    return fitting


class _Mp4:
    """H.264 by PyAV, written as it comes."""

    def __init__(self, path: Path, rate: float, shape: tuple[int, int]) -> None:
        import av

        self._make: Any = av.VideoFrame.from_ndarray
        self._container: Any = av.open(str(path), "w", format="mp4")
        codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
        rate_of = Fraction(rate).limit_denominator(1000)
        self._stream = cast("Any", self._container.add_stream(codec, rate=rate_of))
        # Two neighbours share their colour: sides are even.
        self._even = shape[0] + shape[0] % 2, shape[1] + shape[1] % 2
        self._stream.height, self._stream.width = self._even
        self._stream.pix_fmt = "yuv420p"

    def add(self, picture: Picture) -> bool:
        self._container.mux(self._stream.encode(self._make(_fitting(picture, self._even), format="rgb24")))
        return True

    def close(self, whole: bool) -> None:
        if whole:
            self._container.mux(self._stream.encode())
        self._container.close()


class _Gif:
    """A GIF by Pillow, kept in memory until it is written."""

    def __init__(self, path: Path, rate: float, shape: tuple[int, int]) -> None:
        from PIL import Image

        self._image, self._path = Image, path
        self._every = max(1, round(rate / _GIF_RATE))
        self._duration_ms = round(1000 * self._every / rate)
        self._step = math.ceil(max(shape) / _LONGEST_GIF_SIDE)
        self._room = _MOST_GIF_PIXELS * self._step**2 // (shape[0] * shape[1])
        self._number = 0
        self._images: list[Any] = []

    def add(self, picture: Picture) -> bool:
        self._number += 1
        if (self._number - 1) % self._every:
            return True
        if len(self._images) >= self._room:
            return False
        self._images.append(self._image.fromarray(picture).reduce(self._step).quantize(256))
        return True

    def close(self, whole: bool) -> None:
        if whole:
            first, *rest = self._images
            first.save(
                self._path, "GIF", save_all=True, append_images=rest, duration=self._duration_ms, loop=0
            )
