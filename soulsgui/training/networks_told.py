"""Tells of what networks a run learns with: in the trainer's log and in the run's folder."""

import logging
from typing import Protocol, runtime_checkable

from soulsgui.config.paths import RunFolder
from soulsgui.rl.networks.shapes import LayerShape, shape_lines
from soulsgui.system import atomic_write

logger = logging.getLogger(__name__)


@runtime_checkable
class HasShapes(Protocol):
    """An agent that can tell the layers of its networks."""

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of each network by its name."""
        ...


def tell_networks(agent: object, run: RunFolder, image: str = "") -> None:
    """Log the layers of an agent's networks, with shapes and parameters, and write them into `network.txt`.

    Args:
        agent: The learner; one that can't tell is passed over.
        run: Folder of the run.
        image: Which sides of the images they see are which, in words (`environments.images.image_words`).
    """
    if not isinstance(agent, HasShapes):
        return
    lines = [f"image {image}"] if image else []
    lines += [line for name, report in agent.shapes().items() for line in shape_lines(name, report)]
    for line in lines:
        logger.info("%s", line)
    atomic_write(run.network, ("\n".join(lines) + "\n").encode())
