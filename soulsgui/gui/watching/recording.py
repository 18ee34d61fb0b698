"""The pictures of an evaluation that have come, as many as are kept, and which of them is shown. Pure."""

from soulsgui.wire.control import Picture

_MOST_PICTURES = 3000
_MOST_CHARACTERS = 48 * 2**20
_BETWEEN_EPISODES_S = 0.8
_LONGEST_S = 2.0
_ENOUGH, _FEW = 60, 20  # pictures behind the one that is shown


class Recording:
    """Keeps pictures in the order in which they came; the oldest go first."""

    def __init__(self, most_pictures: int = _MOST_PICTURES, most_characters: int = _MOST_CHARACTERS) -> None:
        self._most_pictures, self._most_characters = most_pictures, most_characters
        self._pictures: list[Picture] = []
        self._characters = 0
        self._filling = True
        self._lost = False  # the oldest are gone
        self.place = 0

    def __len__(self) -> int:
        return len(self._pictures)

    def add(self, picture: Picture) -> None:
        """Put a picture at the end."""
        self._pictures.append(picture)
        self._characters += len(picture.jpeg)
        while len(self._pictures) > self._most_pictures or self._characters > self._most_characters:
            self._characters -= len(self._pictures.pop(0).jpeg)
            self.place = max(self.place - 1, 0)
            self._lost = True

    @property
    def shown(self) -> Picture | None:
        """The picture that is shown; None before the first has come."""
        return self._pictures[self.place] if self._pictures else None

    @property
    def ahead(self) -> int:
        """How many have come that follow the one that is shown."""
        return max(len(self._pictures) - 1 - self.place, 0)

    def go_to(self, place: int) -> None:
        """Show another one; beyond the last it is the last."""
        self.place = min(max(place, 0), max(len(self._pictures) - 1, 0))

    def beginning_of(self, episode: int) -> int | None:
        """Return the place of the first picture of an episode; None where that never came, or is gone."""
        place = next((n for n, one in enumerate(self._pictures) if one.episode == episode), None)
        return None if place == 0 and self._lost else place

    @property
    def stays_s(self) -> float | None:
        """How long the picture is shown at the usual pace; None while nothing follows it."""
        if not self.ahead:
            return None
        now, then = self._pictures[self.place : self.place + 2]
        if now.episode != then.episode:
            return _BETWEEN_EPISODES_S
        return min(max(then.step - now.step, 0) / now.rate, _LONGEST_S)

    def wants_more(self) -> bool:
        """Whether the evaluation should go on: not once enough is ahead, and again when little is left."""
        if self.ahead >= _ENOUGH or self.ahead <= _FEW:
            self._filling = self.ahead <= _FEW
        return self._filling
