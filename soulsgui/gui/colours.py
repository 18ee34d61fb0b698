"""Every colour of the window, in a light and a dark set (no Qt)."""

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """What a colour says."""

    TEXT = "text"
    MUTED = "muted"
    ACCENT = "accent"
    GOOD = "good"
    BUSY = "busy"
    PAUSED = "paused"
    WARNING = "warning"
    BAD = "bad"
    IDLE = "idle"


@dataclass(frozen=True)
class Colours:
    """One set of colours, each as `#rrggbb`."""

    dark: bool
    window: str
    base: str
    alternate: str
    card: str
    hover: str
    border: str
    edge: str  # outline of controls, which must be seen (3:1)
    text: str
    muted: str
    disabled: str
    accent: str
    on_accent: str
    selection: str  # behind selected rows; every tone stays readable on it
    grid: str
    tones: dict[Tone, str]
    washes: dict[Tone, str]  # faint backgrounds: message bar, banner, badge
    curves: tuple[str, ...]  # in the order in which they are given out

    def curve(self, index: int) -> str:
        """Return the colour of the curve with this number; they repeat after the last."""
        return self.curves[index % len(self.curves)]

    def faded_curve(self, index: int) -> str:
        """Return the opaque, faded colour for the raw trace behind a smoothed curve."""
        return blend(self.curve(index), self.base, 0.36 if self.dark else 0.32)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def blend(colour: str, onto: str, opacity: float) -> str:
    """Return the opaque colour of `colour` laid over `onto` with an opacity from 0 to 1."""
    mixed = (round(b + (a - b) * opacity) for a, b in zip(_channels(colour), _channels(onto), strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _set(dark: bool, window: str, tones: dict[Tone, str], **rest: str | tuple[str, ...]) -> Colours:
    card, muted = str(rest["card"]), str(rest["muted"])
    plain = {Tone.TEXT: str(rest["text"]), Tone.ACCENT: str(rest["accent"])}
    tones = plain | {Tone.MUTED: muted, Tone.IDLE: muted} | tones
    washes = {tone: blend(colour, card, 0.13 if dark else 0.11) for tone, colour in tones.items()}
    return Colours(dark=dark, window=window, tones=tones, washes=washes, **rest)  # type: ignore[arg-type]


LIGHT = _set(
    dark=False,
    window="#f3f4f7",
    base="#ffffff",
    alternate="#f8f9fb",
    card="#ffffff",
    hover="#e7eaf0",
    border="#d8dce4",
    edge="#858d9b",
    text="#1a1e26",
    muted="#535b69",
    disabled="#8a919d",
    accent="#1d5fc4",
    on_accent="#ffffff",
    selection="#dbe7fa",
    grid="#e3e6ec",
    tones={
        Tone.GOOD: "#146c2e",
        Tone.BUSY: "#1d5bbd",
        Tone.PAUSED: "#6a3fb0",
        Tone.WARNING: "#855000",
        Tone.BAD: "#b3231b",
    },
    curves=(
        "#1f6fe0",
        "#bf4d06",
        "#177a41",
        "#b02a86",
        "#7a5af0",
        "#0b7a8d",
        "#9a6a00",
        "#d4334a",
        "#4d6b8a",
        "#5b7800",
    ),
)

DARK = _set(
    dark=True,
    window="#191c21",
    base="#14171b",
    alternate="#181b20",
    card="#20242a",
    hover="#2b3038",
    border="#343a44",
    edge="#78828f",
    text="#e7eaef",
    muted="#a3acb9",
    disabled="#76808e",
    accent="#82b1ff",
    on_accent="#10141a",
    selection="#26395a",
    grid="#282d35",
    tones={
        Tone.GOOD: "#62d283",
        Tone.BUSY: "#82b1ff",
        Tone.PAUSED: "#c6a5f7",
        Tone.WARNING: "#f2bb4e",
        Tone.BAD: "#ff9088",
    },
    curves=(
        "#7db0ff",
        "#ff9d5c",
        "#5fd08a",
        "#ef8fd0",
        "#b39dff",
        "#4fd0e0",
        "#e3c04a",
        "#ff8592",
        "#a4bbd4",
        "#b8d64a",
    ),
)


def colours_for(dark: bool) -> Colours:
    """Return the dark or the light set."""
    return DARK if dark else LIGHT
