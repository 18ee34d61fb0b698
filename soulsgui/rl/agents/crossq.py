"""CrossQ: soft actor-critic without target networks, whose networks are normalised by their batches."""

from torch import Tensor

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.rl.agents.base import Arrays, to_numpy
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.gradients.crossq import FIGURES, CrossQGradient, CrossQStep
from soulsgui.rl.networks.mlp import SACNetworks
from soulsgui.rl.networks.renorm import folded_layers

_BETAS = 0.5, 0.999


class CrossQAgent(SACAgent):
    """Learns what `SACAgent` learns, with fewer samples.

    Bhatt et al. 2024 (arXiv 1902.05605): batch renormalisation in actor and critics, and critics that see
    present and next observations in one batch, in the place of target networks; actor and temperature move at
    each `sac.policy_delay` updates. Clients get plain layers, into which the normalisations are folded.

    Its figures are those of `SACAgent` without `actor_loss`, which not every update has; `entropy` is that at
    the next observations. Arguments and errors are the same. In its settings `sac.agent` is `crossq`.
    """

    _FIGURES = FIGURES

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        self._optimiser.betas = _BETAS
        self._actor_size = sum(parameter.numel() for parameter in self.networks.actor.parameters())

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: actor, as plain layers, and normaliser, copied."""
        layers = folded_layers(self.networks.actor, "policy")
        return self._with_statistics({name: to_numpy(tensor) for name, tensor in layers})

    def update(self, batch: NStepBatch, tell: bool = True) -> None:
        """Make a gradient step with windows of any length: none has a priority."""
        sac = self.settings.sac
        self._set_rate(sac.learning_rate)
        self.updates += 1
        moves = self.updates % sac.policy_delay == 0
        told = CrossQStep(self._target_entropy, moves)
        self._figures.add(self._gradient(self._rows(batch), told).figures)
        # The temperature stands last.
        self._optimiser.step(slice(self._actor_size, -1))
        if moves:
            for part in (slice(self._actor_size), slice(-1, None)):
                self._optimiser.step(part, self.updates // sac.policy_delay)

    def _gradient_of(self, networks: SACNetworks) -> CrossQGradient:
        return CrossQGradient(networks, self._flat)

    def _networks(self) -> list[tuple[str, Tensor]]:
        nets = self.networks
        named = {"actor": nets.actor, **{f"critic_{index}": one for index, one in enumerate(nets.critics)}}
        tensors = (
            (f"{prefix}.{name}", tensor)
            for prefix, network in named.items()
            for name, tensor in network.state_dict().items()
        )
        return [*tensors, ("log_temperature", nets.log_temperature)]
