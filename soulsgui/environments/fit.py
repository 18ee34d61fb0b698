"""Whether algorithm and network can take an environment, by its spaces: told before anything starts. Pure."""

from collections.abc import Mapping
from typing import Any

from soulsgui.environments.images import LEAST_SIDES, image_words, layout_of
from soulsgui.environments.observations import with_channels
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import SoulsGuiError


def refuse_misfit(spaces: SpacesSpec, learner: Mapping[str, Any]) -> None:
    """Refuse an algorithm or a network that can't take what an environment shows and takes.

    What a network of one's own can see only its making tells: it is not looked at here.

    Args:
        spaces: Of the environment.
        learner: `algorithm`, `network` (`network.name`) and `channels` (`network.channels`).

    Raises:
        EnvironmentCheckError: The algorithm can't choose such actions.
        UsageError: The network can't see such observations.
    """
    algorithm, network = learner["algorithm"], learner["network"]
    if algorithm == "dqn":
        spaces.numbered_actions(algorithm)
    if algorithm == "sac":
        spaces.bounded_actions(algorithm)
    if network in LEAST_SIDES:
        seen = with_channels(spaces.observation.seen(True), learner["channels"])
        layout_of(seen.fields[0][1], network)


def fit_report(spaces: SpacesSpec | None, learner: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is to report of an environment together with what is to learn from it.

    Args:
        spaces: Of the environment; None where they are not known.
        learner: As in `refuse_misfit`.

    Returns:
        `misfit`: what `refuse_misfit` says, as `message` and `remedy`, None where it fits; `image`: which
        sides of the image it shows are which, in words, empty where it shows none.
    """
    misfit = None
    if spaces is None:
        return {"misfit": misfit, "image": ""}
    try:
        refuse_misfit(spaces, learner)
    except SoulsGuiError as error:
        misfit = {"message": error.message, "remedy": error.remedy}
    return {"misfit": misfit, "image": image_words(spaces.observation, learner["channels"])}
