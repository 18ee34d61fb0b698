"""How a client speaks: the hello, the grant and the wish that answer it, its episodes and its log lines."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.base import Details, Instance, Message, Whole, Words
from soulsgui.wire.messages.heartbeat import MAX_ENVS

MAX_HELLO_BYTES = 2**18  # a hello may describe spaces with bounds for each of thousands of numbers

HELLO_FIELD = b"hello"
CHUNK_FIELD = b"c"
EPISODE_FIELD = b"e"


GrantStatus = Literal["accepted", "refused", "quarantined"]


class SessionHello(Message):
    """First entry of a session.

    Attributes:
        run_id: The run it wants to play for.
        contract: Hash of the contract it was built for.
        num_envs: Environments it steps side by side: its share of a round is this times the steps.
        served: Of an inference server, the number of the first environment of each client that it serves.
        versions: Version of each package that matters.
        serves: Whether it is an inference server, which sends what the environments of others show.
        spaces: What its environment shows and takes (`environments.spaces.SpacesSpec.to_json`), told where
            the server does not know it.
    """

    most_bytes = MAX_HELLO_BYTES

    client: str
    instance: Instance
    protocol: int = PROTOCOL
    run_id: str
    contract: str
    num_envs: int = Field(ge=1, le=MAX_ENVS)
    serves: bool = False
    served: dict[str, int] = Field(default_factory=dict)
    versions: dict[str, Words] = Field(default_factory=dict)
    spaces: dict[str, Any] | None = None


class RoundShare(Message):
    """One client's part of a round.

    Attributes:
        round_id: Id of the round: the id of the weights to play with.
        steps: Transitions of all its environments together to deliver in this session, in total; it may grow
            when others are lost, so that repeats are harmless.
    """

    round_id: int
    steps: int = Field(ge=0)


class Ladder(Message):
    """Where a client's environments stand among all that play, each exploring less than the one before.

    Attributes:
        first: Number of its first environment among all.
        count: Environments of all clients together.
        exponent: What the last one's epsilon is raised to, less 1 (7 in Ape-X, arXiv 1803.00933).
    """

    first: int = Field(ge=0)
    count: int = Field(ge=1)
    exponent: float = Field(ge=0, le=100)


class GreedyOrder(Message):
    """An evaluation that a client is to play: episodes without exploration, none of which is learned from.

    Attributes:
        model_id: Weights to play it with. They are published together with the order, under an id that no
            other order has: the order is named by it.
        count: Episodes that are wanted, at most.
        attempt, update, env_steps, episodes: Where the run was when it had them.
        confirms: What it is to confirm (`node.Verdict.to_confirm`); None for nothing.
        goal: Mean return that it is held against: it is over as soon as it says on which side of it the
            policy is. None: it takes `count` episodes.
        least: With a goal, episodes after which that is checked for the first time.
        players: How many clients play it, each all of it, so that none decides: the median of their means
            counts, the lower one of two.
        asked: Ids of the commands that asked for it.
    """

    model_id: int = Field(ge=0)
    count: int = Field(ge=1)
    attempt: int = Field(ge=1)
    update: int = Field(ge=0)
    env_steps: int = Field(ge=0)
    episodes: int = Field(ge=0)
    confirms: int | None = None
    goal: float | None = None
    least: int = Field(1, ge=1)
    players: int = Field(1, ge=1)
    asked: list[str] = Field(default_factory=list)


NO_SESSION = "0-0"
"""The session of a grant that cuts a client off which has none."""


class Grant(Message):
    """What the trainer allows one client: the `grant:<client>` key.

    Attributes:
        session: Entry id of the hello this answers, or `NO_SESSION`.
        status: Whether the session may send.
        reason: Why not, in words.
        credit_bytes, credit_entries: What may be sent since the hello, in total; repeats are harmless.
        credit_steps: The same in transitions; None without such a limit.
        epsilon: Probability of a random action; None when it is not to be one.
        temperature: Draw actions by their values, those `temperature` apart e to 1; None: don't.
        ladder: How epsilon differs among environments; None: it does not.
        rejected: Segments refused since the hello, by reason.
        round: The part of the present round, None while it plays no part.
        resting: Whether the run is paused: nothing is taken, and who can wait loses nothing.
        greedy: The evaluation that it is to play; None: it is not asked for one.
        share: Which part of all transitions that come at present is of this client; None while none come.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    session: str
    status: GrantStatus
    reason: Words = ""
    credit_bytes: int = 0
    credit_entries: int = 0
    credit_steps: int | None = None
    epsilon: float | None = Field(default=None, ge=0, le=1)
    temperature: float | None = Field(default=None, gt=0)
    ladder: Ladder | None = None
    rejected: dict[str, int] = Field(default_factory=dict)
    round: RoundShare | None = None
    resting: bool = False
    greedy: GreedyOrder | None = None
    share: float | None = Field(default=None, ge=0, le=1)


WishState = Literal["run", "pause", "finish", "stop"]


class Wish(Message):
    """The state the runner wants a client in: the `to:<client>` key.

    Attributes:
        look: Another number than before asks for a picture of its game.
    """

    command_id: str
    state: WishState = "run"
    look: int = 0


LONGEST_SIDE = 240  # of a picture of a game, pixels
_MOST_RGB = 4 * LONGEST_SIDE * LONGEST_SIDE  # three bytes of each pixel are four letters
MOST_PICTURE_BYTES = _MOST_RGB + 1000


class GamePicture(Message):
    """What a client's game shows: the `seen:<client>` key.

    As plain numbers, so that nobody has to decode a file of a stranger.

    Attributes:
        look: The number in the wish that asked for it.
        width, height: Pixels.
        rgb: Three bytes a pixel, row by row from the top left, in Base64.
    """

    look: Whole
    width: int = Field(ge=1, le=LONGEST_SIDE)
    height: int = Field(ge=1, le=LONGEST_SIDE)
    rgb: str = Field(max_length=_MOST_RGB, repr=False)


class Episode(Message):
    """One finished episode.

    Attributes:
        number: Number of the episode in its client's session, from 0; of a greedy one, in its evaluation.
        env_index: Environment of the client it was played in.
        total_return: Undiscounted sum of rewards.
        terminated: Whether it ended by itself, rather than being cut off.
        model_id: Weights in use at its end; a greedy one is played with the same weights throughout.
        seconds: Wall time it took.
        greedy: Whether it is part of an evaluation that the client was asked for (`session.GreedyOrder`): it
            counts as that, and is no episode of the training.
        cut: Whether a greedy one did not end and was cut after `evaluation.max_steps`.
        metrics: What `telemetry.metrics` asks for, as far as the environment told it.
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
    metrics: dict[str, float] = Field(default_factory=dict)


LINE_FIELD = b"line"
KEPT_LINES = 200
"""Entries of the stream that are kept; the time of a line is that of its entry, by the server's clock."""


class SentLine(Message):
    """One log line, without time and level; a traceback follows on lines of its own."""

    level: Literal["warning", "error"]
    text: Details
