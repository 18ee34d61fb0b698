"""Choices among numbered actions: one, several, or yes and no."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from soulsgui.policies.distributions import MASKED_LOGIT


class Categorical:
    """One of `A` numbered actions.

    Args:
        logits: `[B, A]`.
        mask: `[B, A]` bool, True where an action may be taken, at least once in each row; None: everywhere.
            What is masked has probability 0, adds nothing to the entropy, and gets no gradient.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = logits.masked_fill(~mask, MASKED_LOGIT)
        self._log_probs = logits.log_softmax(1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B]` int64."""
        # The largest of log-probabilities with Gumbel noise: works with a generator of any device.
        uniform = uniform_like(self._log_probs, generator).clamp(min=1e-30)
        return (self._log_probs.detach() - uniform.log().neg().log()).argmax(1)

    def mode(self) -> Tensor:
        """Return the most probable actions `[B]`."""
        return self._log_probs.argmax(1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B]`."""
        return self._log_probs.gather(1, action.unsqueeze(1)).squeeze(1)

    def entropy(self) -> Tensor:
        """Return the entropies in nats."""
        return -(self._log_probs.exp() * self._log_probs).sum(1)


class MultiDiscrete:
    """Several numbered choices at once, independent of each other given the observation.

    Args:
        logits: `[B, sum(sizes)]`, choice after choice.
        sizes: Number of actions of each choice.
        mask: `[B, sum(sizes)]` bool as in `Categorical`, at least once True in each choice; or None.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        parts = torch.split(logits, list(sizes), 1)
        masks = [None] * len(sizes) if mask is None else torch.split(mask, list(sizes), 1)
        self._parts = [Categorical(part, allowed) for part, allowed in zip(parts, masks, strict=True)]

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, choices]` int64."""
        return torch.stack([part.sample(generator) for part in self._parts], 1)

    def mode(self) -> Tensor:
        """Return the most probable actions `[B, choices]`."""
        return torch.stack([part.mode() for part in self._parts], 1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B, choices]`: sums over the choices."""
        logs = [part.log_prob(action[:, index]) for index, part in enumerate(self._parts)]
        return torch.stack(logs).sum(0)

    def entropy(self) -> Tensor:
        """Return the entropies: sums over the choices."""
        return torch.stack([part.entropy() for part in self._parts]).sum(0)


class MultiBinary:
    """Several independent yes-or-no choices.

    Args:
        logits: `[B, D]`, log-odds of 1.
    """

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, D]` int64 of 0 and 1."""
        return (uniform_like(self._logits, generator) < self._logits.detach().sigmoid()).long()

    def mode(self) -> Tensor:
        """Return the more probable of 0 and 1 for each choice `[B, D]`."""
        return (self._logits > 0).long()

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B, D]`: sums over the choices."""
        return nn.functional.logsigmoid(torch.where(action > 0, self._logits, -self._logits)).sum(1)

    def entropy(self) -> Tensor:
        """Return the entropies: sums over the choices."""
        return (nn.functional.softplus(self._logits) - self._logits.sigmoid() * self._logits).sum(1)


def uniform_like(values: Tensor, generator: torch.Generator) -> Tensor:
    """Draw numbers from 0 up to 1 in the shape, type and place of `values`."""
    drawn = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=generator.device)
    return drawn.to(values.device)
