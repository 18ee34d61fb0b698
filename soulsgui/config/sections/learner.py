"""Settings of the hardware that learns."""

from typing import Literal

from soulsgui.config.declaring import Section, setting


class LearnerSettings(Section):
    """Where the learner computes, and with how many threads."""

    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "`cuda` computes on a GPU, `cpu` never does; `auto` takes a GPU, where there is one, for images and "
        "for layers of 1024 or more: smaller networks are quicker on the CPU.",
    )
    threads: int = setting(
        0,
        "Threads of the learner on the CPU; 0 chooses by the size of the network: one for small ones, which "
        "a second thread only slows down.",
        unit="threads",
        ge=0,
        le=1024,
    )
