"""What every benchmark prints: its figure, the reference measured in the same run, and their ratio."""

import argparse
import importlib.metadata
import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

_VERSIONED = ("soulsgui", "numpy", "redis", "torch", "PySide6-Essentials")


@dataclass(frozen=True)
class Measured:
    """One figure.

    Attributes:
        name: What was measured.
        value: The median of our repeats.
        unit: Its unit.
        reference: The median of the reference's repeats.
        reference_name: What the reference is.
        ratio: `value / reference`.
        repeats: How often both were measured, in turn.
    """

    name: str
    value: float
    unit: str
    reference: float
    reference_name: str
    ratio: float
    repeats: int


def beside(
    name: str,
    unit: str,
    ours: Callable[[], float],
    reference_name: str,
    reference: Callable[[], float],
    repeats: int,
) -> Measured:
    """Measure both sides in turn, so that a noisy neighbour disturbs both alike.

    Args:
        name: What is measured.
        unit: Unit of both.
        ours: Measures our side once.
        reference_name: What the reference is.
        reference: Measures the reference once.
        repeats: How often.
    """
    pairs = [(ours(), reference()) for _ in range(repeats)]
    value, limit = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Measured(name, value, unit, limit, reference_name, value / limit, repeats)


def run(measure: Callable[[bool], Iterable[Measured]], argv: Sequence[str] | None = None) -> None:
    """Run a benchmark as a program.

    Args:
        measure: Does it; told whether few repeats and small sizes are enough.
        argv: What was typed; None takes this program's arguments.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, smaller sizes")
    arguments = parser.parse_args(argv)
    found = measure(arguments.quick)
    if arguments.json:
        print(json.dumps([{**asdict(one), "versions": versions()} for one in found]))
        return
    for one in found:
        print(
            f"{one.name}: {one.value:,.4g} {one.unit}; {one.reference_name}: {one.reference:,.4g} "
            f"{one.unit}; ratio {one.ratio:.3g} (median of {one.repeats})",
            flush=True,
        )
    print(", ".join(f"{name} {version}" for name, version in versions().items()), file=sys.stderr)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that figures depend on."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
