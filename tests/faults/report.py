"""What a test of a fault tells: what was injected, what was lost, how long recovery took."""

FAULT = "fault"
"""Name of the property of a test's result that carries a fact."""


class Report:
    """Takes down the facts of one test.

    Args:
        properties: The properties of the test's result.
    """

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def injected(self, what: str) -> None:
        """Note what was done to the system."""
        self._properties.append((FAULT, f"injected: {what}"))

    def lost(self, count: int, what: str) -> None:
        """Note what was lost by it."""
        self._properties.append((FAULT, f"lost: {count:,} {what}"))

    def recovered(self, seconds: float) -> None:
        """Note how long it took until all was well again."""
        self._properties.append((FAULT, f"recovered in {seconds:.2f} s"))
