"""Which chunks of a session arrived, told by their numbers. Pure."""

from dataclasses import dataclass, field

_LARGEST_GAP = 1024


@dataclass
class ChunkNumbers:
    """Tells repeats and gaps.

    Attributes:
        below: All smaller numbers arrived or are given up; None counts from the first number that comes.
        given_up: Numbers passed over that are not waited for any more.
    """

    below: int | None = 0
    given_up: int = 0
    _beyond: set[int] = field(default_factory=set)
    _highest: int = -1

    def take(self, number: int) -> bool:
        """Note a number; return False when it was there before (or was given up)."""
        if self.below is None:
            self.below = number
        if number < self.below or number in self._beyond:
            return False
        self._beyond.add(number)
        self._highest = max(self._highest, number)
        self._close_up()
        if len(self._beyond) > _LARGEST_GAP:  # so much came after the gap that it won't be filled
            nearest = min(self._beyond)
            self.given_up += nearest - self.below
            self.below = nearest
            self._close_up()
        return True

    def follow(self, numbers: list[int]) -> bool:
        """Whether numbers are the next ones, in order, and nothing was passed over before."""
        below = numbers[0] if self.below is None else self.below
        return not self._beyond and numbers == list(range(below, below + len(numbers)))

    def take_all(self, numbers: list[int]) -> None:
        """Note numbers that `follow`, at least one."""
        self.below = numbers[-1] + 1
        self._highest = max(self._highest, numbers[-1])

    @property
    def missing(self) -> int:
        """Numbers that were passed over so far."""
        if self.below is None or not self._beyond:
            return self.given_up
        return self.given_up + self._highest + 1 - self.below - len(self._beyond)

    def _close_up(self) -> None:
        assert self.below is not None
        while self.below in self._beyond:
            self._beyond.discard(self.below)
            self.below += 1
