"""A finished episode, sent on `ep:<client>`."""

from soulsgui.wire.messages.base import Message


class Episode(Message):
    """One finished episode.

    Attributes:
        run_id: The run it was played for.
        attempt: The attempt of the run it was played in.
        number: Number of the episode in its client's session, from 0; of a greedy one, in its evaluation.
        env_index: Environment of the client it was played in.
        total_return: Undiscounted sum of rewards.
        length: Steps.
        terminated: Whether it ended by itself, rather than being cut off.
        model_id: Weights in use at its end; a greedy one is played with the same weights throughout.
        seconds: Wall time it took.
        greedy: Whether it is part of an evaluation that the client was asked for (`session.GreedyOrder`): it
            counts as that, and is no episode of the training.
        cut: Whether a greedy one did not end and was cut after `evaluation.max_steps`.
    """

    run_id: str
    attempt: int
    number: int
    env_index: int
    total_return: float
    length: int
    terminated: bool
    model_id: int
    seconds: float
    greedy: bool = False
    cut: bool = False
