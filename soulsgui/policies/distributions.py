"""Distributions over actions in numpy: what a client draws from; their twins in torch learn.

Equal to `soulsgui.rl.distributions` to 1e-5. Each is made from the outputs of a network for `B` observations
and has `sample(rng)`, `mode()`, `log_prob(action)` and `entropy()`; `[B]` float32 the last two. Means and
deviations are `[B, D]` or `[D]`, deviations above 0; bounds `low` and `high` are `[D]`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MASKED_LOGIT = float(np.finfo(np.float32).min)
"""Logit of an action that is not valid: finite, so that 0 · log 0 is 0 in the entropy and in its gradient."""

LEAST_STD = 1e-3
LARGEST_LOG_STD = 10.0
"""Beyond it an exponential stands still: one step too far would leave the numbers of float32."""
_LOGISTIC = [
    (0.003246343272134, 1.365340806296348),
    (0.051517477033972, 1.059523971016916),
    (0.195077912673858, 0.830791313765644),
    (0.315569823632818, 0.650732166639391),
    (0.274149576158423, 0.508135425366489),
    (0.131076880695470, 0.396313345166341),
    (0.027912418727972, 0.308904252267995),
    (0.001449567805354, 0.238212616409306),
]
LOGISTIC_SHARES: Floats = np.array([share for share, _ in _LOGISTIC], np.float32)
LOGISTIC_VARIANCES: Floats = np.array([scale**-2 for _, scale in _LOGISTIC], np.float32)
"""Eight Gaussians around 0 whose mixture is the logistic distribution, to 3e-9 of its distribution function
(Monahan and Stefanski 1992, "Normal scale mixture approximations to F*(z)", table for k = 8)."""


class NumpyCategorical:
    """One of `A` numbered actions, of logits `[B, A]`.

    The mask `[B, A]` is True where an action may be taken; None: everywhere. What is masked has probability
    0: it is never drawn, and adds nothing to the entropy.

    Raises:
        ValueError: An observation allows no action.
    """

    def __init__(self, logits: Floats, mask: Bools | None = None) -> None:
        if mask is not None:
            if not mask.any(axis=1).all():
                raise ValueError("each observation must allow at least one action")
            logits = np.where(mask, logits, MASKED_LOGIT)
        shifted = logits - logits.max(axis=1, keepdims=True)
        weight = np.exp(shifted)
        total = weight.sum(axis=1, keepdims=True)
        self._log_probs: Floats = shifted - np.log(total)
        self._probs: Floats = weight / total

    def sample(self, rng: np.random.Generator) -> Ints:
        """Draw actions `[B]` int64; one number a row is taken from the generator."""
        upto = np.add.accumulate(self._probs, axis=1)
        draw = rng.random((len(upto), 1), dtype=np.float32) * upto[:, -1:]
        # An action of probability 0 does not raise the sum, so that no draw falls to it.
        index: Ints = np.add.reduce(upto[:, :-1] <= draw, axis=1, dtype=np.int64)
        possible: Ints = np.minimum(index, self._last_possible())
        return possible

    def mode(self) -> Ints:
        """Return the most probable actions `[B]`."""
        index: Ints = self._log_probs.argmax(axis=1)
        return index

    def log_prob(self, action: Ints) -> Floats:
        """Return the log-probabilities of actions `[B]`."""
        picked: Floats = np.take_along_axis(self._log_probs, action[:, None], axis=1)[:, 0]
        return picked

    def entropy(self) -> Floats:
        """Return the entropies in nats."""
        entropies: Floats = -(self._probs * self._log_probs).sum(axis=1)
        return entropies

    def _last_possible(self) -> Ints:
        """Return the last action of each row that is not impossible: rounding may lead a draw beyond it."""
        behind = (self._probs[:, ::-1] > 0).argmax(axis=1)
        last: Ints = self._probs.shape[1] - 1 - behind
        return last


class NumpyMultiDiscrete:
    """Several numbered choices at once, independent of each other given the observation.

    Logits and mask (as in `NumpyCategorical`) are `[B, sum(sizes)]`, choice after choice.
    """

    def __init__(self, logits: Floats, sizes: Sequence[int], mask: Bools | None = None) -> None:
        bounds = [0, *np.cumsum(sizes).tolist()]
        self._parts = [
            NumpyCategorical(logits[:, low:high], None if mask is None else mask[:, low:high])
            for low, high in pairwise(bounds)
        ]

    def sample(self, rng: np.random.Generator) -> Ints:
        """Draw actions `[B, choices]` int64."""
        return np.stack([part.sample(rng) for part in self._parts], axis=1)

    def mode(self) -> Ints:
        """Return the most probable actions `[B, choices]`."""
        return np.stack([part.mode() for part in self._parts], axis=1)

    def log_prob(self, action: Ints) -> Floats:
        """Return the log-probabilities of actions `[B, choices]`: sums over the choices."""
        logs = [part.log_prob(action[:, index]) for index, part in enumerate(self._parts)]
        total: Floats = np.sum(logs, axis=0, dtype=np.float32)
        return total

    def entropy(self) -> Floats:
        """Return the entropies: sums over the choices."""
        total: Floats = np.sum([part.entropy() for part in self._parts], axis=0, dtype=np.float32)
        return total


class NumpyMultiBinary:
    """Several independent yes-or-no choices."""

    def __init__(self, logits: Floats) -> None:
        self._logits = logits

    def sample(self, rng: np.random.Generator) -> Ints:
        """Draw actions `[B, D]` int64 of 0 and 1."""
        return (rng.random(self._logits.shape, dtype=np.float32) < self._positive()).astype(np.int64)

    def mode(self) -> Ints:
        """Return the more probable of 0 and 1 for each choice `[B, D]`."""
        return (self._logits > 0).astype(np.int64)

    def log_prob(self, action: Ints) -> Floats:
        """Return the log-probabilities of actions `[B, D]`: sums over the choices."""
        signed = np.where(action > 0, self._logits, -self._logits)
        return _sum(-softplus(-signed))

    def entropy(self) -> Floats:
        """Return the entropies: sums over the choices."""
        return _sum(softplus(self._logits) - self._positive() * self._logits)

    def _positive(self) -> Floats:
        """Return the probabilities of 1, as a tanh: it can't overflow."""
        probability: Floats = np.float32(0.5) * (1 + np.tanh(np.float32(0.5) * self._logits))
        return probability


class NumpyGaussian:
    """Numbers without bounds, independent of each other given the observation."""

    def __init__(self, mean: Floats, std: Floats) -> None:
        self.mean, self.std = mean, np.broadcast_to(std, mean.shape)

    def sample(self, rng: np.random.Generator) -> Floats:
        """Draw actions `[B, D]` float32."""
        noise = rng.standard_normal(self.mean.shape, dtype=np.float32)
        drawn: Floats = self.mean + self.std * noise
        return drawn

    def mode(self) -> Floats:
        """Return the means `[B, D]`."""
        return self.mean.copy()

    def log_prob(self, action: Floats) -> Floats:
        """Return the log-densities of actions `[B, D]`."""
        scaled = (action - self.mean) / self.std
        return _sum(-0.5 * np.square(scaled) - np.log(self.std) - np.float32(0.5 * math.log(2 * math.pi)))

    def entropy(self) -> Floats:
        """Return the differential entropies in nats."""
        return _sum(np.log(self.std) + np.float32(0.5 * math.log(2 * math.pi * math.e)))


class NumpyTanhGaussian(NumpyGaussian):
    """Numbers within bounds: a Gaussian `u`, squashed to `low + (tanh(u) + 1) / 2 * (high - low)`.

    What is drawn, stored and scored is `u`; `to_action` gives what the environment takes. The way back from a
    squashed float32 does not exist near the bounds, where many `u` become the same number. Mean and deviation
    are those of `u`; its middle is the mode: half of the actions lie below its action.
    """

    def __init__(self, mean: Floats, std: Floats, low: Floats, high: Floats) -> None:
        super().__init__(mean, std)
        self._low, self._high, self._half = low, high, (high - low) / 2

    def to_action(self, latent: Floats) -> Floats:
        """Return the actions `[B, D]` for `u`, never outside the bounds."""
        action: Floats = np.clip(self._low + (np.tanh(latent) + 1) * self._half, self._low, self._high)
        return action

    def log_prob(self, latent: Floats) -> Floats:
        """Return the log-densities of the *actions* for `u` `[B, D]` (arXiv 1812.05905, eq. 26)."""
        return super().log_prob(latent) - _sum(log_tanh_slope(latent) + np.log(self._half))

    def entropy(self) -> Floats:
        """Return the differential entropies of the actions, to 1e-3 and 1e-6 of their size.

        `log(1 - tanh(u)^2) = 2 log 2 - E|2u + l|` with a logistic `l`; where that is a mixture of Gaussians,
        so is `2u + l`, and the mean of its absolute value has a closed form.
        """
        mean = 2 * self.mean[..., None]
        std = np.sqrt(4 * np.square(self.std[..., None]) + LOGISTIC_VARIANCES)
        scaled = mean / (np.float32(math.sqrt(2)) * std)
        spread = std * np.float32(math.sqrt(2 / math.pi)) * np.exp(-np.square(scaled)) + mean * _erf(scaled)
        slope = np.float32(2 * math.log(2)) - spread @ LOGISTIC_SHARES
        return super().entropy() + _sum(slope + np.log(self._half))


_erf = np.vectorize(math.erf, otypes=[np.float32])


def _sum(each: Floats) -> Floats:
    """Add up over the dimensions of an action: `[B, D]` to `[B]`."""
    total: Floats = each.sum(axis=1, dtype=np.float32)
    return total


def softplus(x: Floats) -> Floats:
    """`log(1 + exp(x))`, without overflow."""
    result: Floats = np.logaddexp(x, np.float32(0))
    return result


def log_tanh_slope(latent: Floats) -> Floats:
    """`log(1 - tanh(u)^2)`, as `2 (log 2 - u - softplus(-2u))`: exact where tanh(u) rounds to 1."""
    slope: Floats = 2 * (np.float32(math.log(2)) - latent - softplus(-2 * latent))
    return slope


def softplus_std(raw: Floats, initial: float) -> Floats:
    """Standard deviation out of a network's output: `softplus(raw + c) + 0.001`, `initial` where raw is 0.

    A softplus with an offset, as arXiv 2006.05990 recommends (section 3.2), with 0.5 to begin with.
    """
    return softplus(raw + np.float32(std_offset(initial))) + np.float32(LEAST_STD)


def exponential_std(raw: Floats, initial: float) -> Floats:
    """Standard deviation out of a network's output: `exp(raw + c) + 0.001`, `initial` where raw is 0.

    The other one that arXiv 2006.05990 compares (section 3.2), as in most programs; `raw + c` is at most 10.
    """
    log_std = np.minimum(raw + np.float32(log_std_offset(initial)), np.float32(LARGEST_LOG_STD))
    std: Floats = np.exp(log_std) + np.float32(LEAST_STD)
    return std


StdTransform = Literal["softplus", "exponential"]
STD_TRANSFORMS: Mapping[StdTransform, Callable[[Floats, float], Floats]] = {
    "softplus": softplus_std,
    "exponential": exponential_std,
}


def std_offset(initial: float) -> float:
    """Return the c of `softplus_std`; a ValueError if the initial deviation is not above 0.001."""
    return math.log(math.expm1(_above_least(initial)))


def log_std_offset(initial: float) -> float:
    """Return the c of `exponential_std`; a ValueError if the initial deviation is not above 0.001."""
    return math.log(_above_least(initial))


def _above_least(initial: float) -> float:
    if not initial > LEAST_STD:
        raise ValueError(f"the initial standard deviation must be above {LEAST_STD}, not {initial}")
    return initial - LEAST_STD
