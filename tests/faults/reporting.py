"""What a fault test tells: what was injected, what was lost, how long recovery took."""

import sys


class Report:
    """Collects what happened in a test, and prints it at its end.

    Args:
        name: Name of the test.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[str] = []

    def injected(self, what: str) -> None:
        """Tell what was done to the system."""
        self._lines.append(f"injected: {what}")

    def lost(self, what: str) -> None:
        """Tell what it cost."""
        self._lines.append(f"lost: {what}")

    def recovered(self, seconds: float, what: str = "") -> None:
        """Tell how long it took until all was well."""
        self._lines.append(f"recovered: after {seconds:.2f} s{f' ({what})' if what else ''}")

    def close(self) -> None:
        """Print everything."""
        for line in self._lines:
            sys.stdout.write(f"[{self._name}] {line}\n")
