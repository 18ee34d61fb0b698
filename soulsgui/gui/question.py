"""What is asked before something that has a cost. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question with one way on.

    Attributes:
        title: What is about to be done.
        sentence: What it costs.
        yes: Words of the button that does it.
    """

    title: str
    sentence: str
    yes: str
