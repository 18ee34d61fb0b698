"""Sequences of steps with the recurrent state they began with (R2D2, Kapturowski et al. 2019, ICLR)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.experience.segments import ORIGIN_BIT, Segments
from soulsgui.rl.buffers.memory import Drawn, EpisodeLinks
from soulsgui.rl.buffers.prioritised import SumTree
from soulsgui.rl.buffers.replay import OR_WITHOUT, Bools, Ints, UniformReplay

Floats = NDArray[np.float32]

_AT_FIRST = 64


class HiddenStates:
    """States of sequences by their number, which grows by one; the oldest are given up first.

    Sequences are as many as segments, not as steps: room for one at each step would be gigabytes of a memory
    as wide as Atari games need.
    """

    def __init__(self, size: int) -> None:
        self._rows: Floats = np.zeros((_AT_FIRST, size), np.float32)

    @property
    def size(self) -> int:
        """Numbers of a state."""
        return int(self._rows.shape[1])

    def put(self, number: int, state: Floats, oldest: int) -> None:
        """Keep the state `[S]` of the next sequence; those before `oldest` are no longer asked for."""
        if number - oldest >= len(self._rows):
            held = np.arange(oldest, number)
            rows = np.zeros((2 * len(self._rows), self.size), np.float32)
            rows[held % len(rows)] = self.of(held)
            self._rows = rows
        self._rows[number % len(self._rows)] = state

    def of(self, numbers: NDArray[np.int64]) -> Floats:
        """Return the states `[B, S]` of sequences `[B]`, copied."""
        found: Floats = self._rows[numbers % len(self._rows)]
        return found


_LEAST = 1e-6  # as in `prioritised`


class SequenceBatch(NamedTuple):
    """`B` sequences of at most `T = burn_in + length` steps of one episode each, time first.

    | field | shape, dtype | meaning |
    |---|---|---|
    | number | `[B]` int64 | numbers of the sequences, for `learned` |
    | weight | `[B]` float32 | importance weights, 0 to 1 |
    | obs | `[T + 1, B, *shape]` | raw; the one behind a sequence's last step is repeated up to the end |
    | action | `[T, B]` int64 | |
    | reward | `[T, B]` float32 | |
    | terminated | `[T, B]` bool | the step ended its episode in a final state |
    | valid | `[T, B]` bool | the sequence has this step |
    | learned | `[T, B]` bool | and it is learned from: it is behind the burn-in, or that was not needed |
    | state | `[B, S]` float32 | recurrent state before the first step, when it was acted on |
    | exact | `[B]` bool | the first step begins its episode: its state is right for any weights |
    | next_mask | `[T, B, A]` bool, or None | valid actions at `obs[1:]`; None: all are |
    """

    number: Ints
    weight: Floats
    obs: NDArray[Any]
    action: Ints
    reward: Floats
    terminated: Bools
    valid: Bools
    learned: Bools
    state: Floats
    exact: Bools
    next_mask: Bools | None = None


class SequenceReplay:
    """Draws sequences that begin where segments begin, and go on over the segments of their episode.

    Steps are stored once: neighbouring sequences overlap by all but one segment's length. A sequence can be
    drawn from when on it has a step to learn from: at once at the beginning of an episode, where no burn-in
    is needed, and else when its chain has grown beyond the burn-in.

    Attributes:
        beta: How much of the bias of drawing by priority the weights undo, 0 to 1.

    Args:
        ring: An empty memory; from now on filled through `add` here.
        field: Name of the recurrent state that segments bring, of `state_size` numbers.
        burn_in: Steps that only warm the state up.
        length: Steps that are learned from.
        sequences: Most sequences that are kept; the oldest give way, as they do when their steps are gone.
        alpha: How much priorities count: 0 draws all alike (0.9 in the paper).
    """

    def __init__(
        self,
        ring: UniformReplay,
        field: str,
        state_size: int,
        burn_in: int,
        length: int,
        sequences: int,
        alpha: float,
    ) -> None:
        self.ring = ring
        self.beta = 1.0
        self._field = field
        self._links = EpisodeLinks(ring)
        self._burn_in, self._length, self._alpha = burn_in, length, alpha
        self._tree = SumTree(sequences)
        self._largest = 1.0
        self._first: Ints = np.full(sequences, -1, np.int64)  # number of the first step
        self._state = HiddenStates(state_size)
        self._exact: Bools = np.zeros(sequences, np.bool_)
        self._begun = 0  # sequences ever begun; the next one's number
        self._gone = 0  # sequences that gave way, the oldest first
        # Sequences of each source that wait for steps behind their burn-in: number, step they begin with.
        self._waiting: dict[int, list[tuple[int, int]]] = {}

    @property
    def capacity(self) -> int:
        """Most steps that are kept."""
        return self.ring.capacity

    @property
    def inserted(self) -> int:
        """Steps ever added."""
        return self.ring.inserted

    @property
    def sequences(self) -> int:
        """Sequences that are kept, drawable yet or not."""
        return self._begun - self._gone

    def __len__(self) -> int:
        """Return the number of steps that are kept; 0 while no sequence of them can be drawn."""
        return len(self.ring) if self._tree.total > 0 else 0

    def drawn_with(self, count: int) -> int:
        """Return how many transitions a draw of about `count` learns from: whole sequences."""
        return max(1, round(count / self._length)) * self._length

    def add(self, segments: Segments) -> int:
        """Take segments in (`UniformReplay.add`); return the steps added."""
        before, lengths, first_step = self.ring.stored, segments.length, segments.first_step
        added = self.ring.add(
            segments.obs,
            lengths,
            segments.action,
            segments.reward,
            segments.terminated,
            segments.action_mask,
            segments.origin,
        )
        source = segments.source
        assert source is not None
        joined = self._links.added(segments, before)
        first = self.ring.stored - added + np.cumsum(lengths) - lengths
        kept = first >= before  # of the others, the first steps gave way at once
        states = segments.state[self._field]
        for index in range(len(lengths)):
            whose, start = int(source[index]), int(first_step[index])
            waiting = self._waiting.pop(whose, []) if joined[index] else []
            self._waiting.pop(whose, None)
            if kept[index]:
                waiting.append((self._begin(int(first[index]), states[index], start == 0), start))
            self._grow(whose, waiting, start + int(lengths[index]))
        self._forget()
        return added

    def remove(self, origin: int) -> int:
        """Draw no sequence of an origin any more, as `ReplayMemory` says."""
        removed = len(self.ring.remove(origin))
        places = np.arange(self._gone, self._begun) % len(self._first)
        gone = places[self.ring.is_removed(self.ring.slot(self._first[places]))]
        self._tree.update(gone, np.zeros(len(gone)))
        self._waiting = {
            whose: ones for whose, ones in self._waiting.items() if whose >> ORIGIN_BIT != origin
        }
        return removed

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw sequences for about `count` transitions, at least one: a `SequenceBatch`."""
        batch = self.sample(self.drawn_with(count) // self._length, rng)
        return Drawn(batch, batch.number)

    def sample(self, count: int, rng: np.random.Generator) -> SequenceBatch:
        """Draw sequences by priority, with replacement, as `PrioritisedReplay.draw`."""
        places = self._tree.draw(count, rng)
        weight = (self._tree.values(places) / self._tree.total) ** -self.beta
        path, valid = self._links.along(self.ring.slot(self._first[places]), self._burn_in + self._length)
        steps = self.ring.steps(path, valid)
        behind = np.arange(len(path))[:, None] >= self._burn_in
        newest = self._begun - 1
        number = newest - (newest - places) % len(self._first)
        return SequenceBatch(
            number=number,
            weight=(weight / weight.max()).astype(np.float32),
            obs=steps.obs,
            action=steps.action,
            reward=steps.reward,
            terminated=steps.terminated,
            valid=valid,
            learned=valid & (behind | self._exact[places]),
            state=self._state.of(number),
            exact=self._exact[places],
            next_mask=steps.next_mask,
        )

    def learned(self, number: Ints, error: NDArray[Any]) -> None:
        """Give sequences the priority of their newest error, as `PrioritisedReplay.update_priorities`."""
        priority = np.abs(np.asarray(error, np.float64)) + _LEAST
        held = number >= self._gone
        self._tree.update(number[held] % len(self._first), priority[held] ** self._alpha)
        self._largest = max(self._largest, float(priority[held].max(initial=0.0)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what a continuation needs: the states of `ring` and chains, and of `N` sequences.

        | name | shape, dtype |
        |---|---|
        | sequence.first, sequence.priority, sequence.exact | `[N]`, the oldest first |
        | sequence.state | `[N, S]` |
        | sequence.waiting | `[W, 3]` int64: source, number, first step |
        | sequence.counters | `[3]` int64: sequences begun, gone, most that are kept |
        | sequence.largest | `[]`, largest priority seen |
        """
        numbers = np.arange(self._gone, self._begun)
        places = numbers % len(self._first)
        waiting = [(source, *one) for source, ones in self._waiting.items() for one in ones]
        own = {
            "first": self._first[places],
            "priority": self._tree.values(places),
            "exact": self._exact[places],
            "state": self._state.of(numbers),
            "waiting": np.array(waiting, np.int64).reshape(-1, 3),
            "counters": np.array([self._begun, self._gone, len(self._first)]),
            "largest": np.array(self._largest),
        }
        return self.ring.state() | self._links.state() | {f"sequence.{name}": own[name] for name in own}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned, as `ReplayMemory` says."""
        own = {name.removeprefix("sequence."): state[name] for name in state if name.startswith("sequence.")}
        tree = SumTree(len(self._first))
        try:
            begun, gone, most = (int(counter) for counter in own["counters"])
            shapes = {"first": (), "priority": (), "exact": (), "state": (self._state.size,)}
            fits = all(own[name].shape == (begun - gone, *shape) for name, shape in shapes.items())
            if most != len(self._first) or not fits or own["waiting"].shape[1:] != (3,):
                raise ValueError(f"{begun - gone} sequences of a memory of {most}")
            places = np.arange(gone, begun) % most
            tree.update(places, own["priority"])
            largest = float(own["largest"])
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"The saved sequences do not fit a memory of {len(self._first)}: {error}.",
                f"Resume with the sizes they were saved with, {OR_WITHOUT}",
            ) from error
        self._links.check(state)
        self.ring.load_state(state)
        self._links.load_state(state)
        self._tree, self._largest = tree, largest
        self._begun, self._gone = begun, gone
        self._first[places], self._exact[places] = own["first"], own["exact"]
        self._state = HiddenStates(self._state.size)
        for number, row in enumerate(own["state"], gone):
            self._state.put(number, row, gone)
        self._waiting = {}
        for source, number, start in own["waiting"].tolist():
            self._waiting.setdefault(source, []).append((number, start))

    def _begin(self, first: int, state: Floats, exact: bool) -> int:
        """Keep a new sequence that can't be drawn yet, and return its number."""
        place = self._begun % len(self._first)
        self._tree.update(np.array([place]), np.zeros(1))
        self._first[place], self._exact[place] = first, exact
        self._gone = max(self._gone, self._begun + 1 - len(self._first))
        self._state.put(self._begun, state, self._gone)
        self._begun += 1
        return self._begun - 1

    def _grow(self, source: int, waiting: list[tuple[int, int]], upto: int) -> None:
        """Let sequences be drawn that have a step to learn from, now that their chain goes `upto` a step."""
        ready = [
            number
            for number, start in waiting
            if number >= self._gone
            and (upto - start > self._burn_in or self._exact[number % len(self._first)])
        ]
        if ready:
            places = np.array(ready) % len(self._first)
            self._tree.update(places, np.full(len(ready), self._largest**self._alpha))
        still = [one for one in waiting if one[0] >= self._gone and one[0] not in ready]
        if still:
            self._waiting[source] = still

    def _forget(self) -> None:
        """Give up the sequences whose first step gave way."""
        numbers = np.arange(self._gone, self._begun)
        places = numbers % len(self._first)
        gone = places[self._first[places] < self.ring.stored - len(self.ring)]
        self._tree.update(gone, np.zeros(len(gone)))
        self._gone += len(gone)
        if len(self._waiting) > self.sequences:  # some wait for sources that never came back
            self._waiting = {
                source: held
                for source, ones in self._waiting.items()
                if (held := [one for one in ones if one[0] >= self._gone])
            }

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more (`UniformReplay.close`)."""
        self.ring.close(leave)
