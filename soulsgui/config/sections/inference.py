"""Settings of central inference (SEED, arXiv 1910.06591)."""

from typing import Annotated

from pydantic import Field

from soulsgui.config.declaring import Section, setting


class CentralSettings(Section, to_clients=True):
    """Central inference, with `inference: server`: who chooses the actions of clients without a policy."""

    inference_servers: Annotated[int, Field(ge=1, le=64)] = setting(
        1, "Inference servers; each has its share of the clients.", unit="processes"
    )
    inference_batchsize: Annotated[int, Field(ge=1, le=65_536)] = setting(
        4,
        "Environments that actions are chosen for at once, at most (the requests of a client stay together). "
        "Fewer, where nobody else asks.",
        unit="environments",
    )
    inference_delay: Annotated[float, Field(ge=0, le=2)] = setting(
        0.1,
        "How long a batch waits for the other clients, from its first request on. It does not wait once all "
        "have asked who asked as lately as that.",
        unit="s",
    )
    broadcast_period: Annotated[float, Field(ge=0, le=3600)] = setting(
        2.5,
        "Least time between two changes of the weights that choose actions; the newest ones are taken.",
        unit="s",
    )
