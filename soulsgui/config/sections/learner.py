"""Settings of the hardware that learns."""

from typing import Literal

from soulsgui.config.declaring import Effect, Section, setting


class LearnerSettings(Section):
    """Where the learner computes, and with how many threads."""

    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "`cuda` computes on a GPU, `cpu` never does; `auto` takes a GPU, where there is one, for images and "
        "for layers of 1024 or more: smaller networks are quicker on the CPU.",
        effect=Effect.RESUME,
    )
    threads: int = setting(
        0,
        "Threads of the learner on the CPU; 0 chooses by the size of the network: one for small ones, which "
        "a second thread only slows down.",
        effect=Effect.RESUME,
        unit="threads",
        ge=0,
        le=1024,
    )
    processes: int = setting(
        1,
        "Processes that compute each gradient together, a part of the batch each, every one on a GPU of its "
        "own: for networks and batches that keep a GPU busy. A step is the same, but for rounding; batch "
        "sizes are those of all together. Where there is no GPU they learn on the CPU, which is much slower "
        "than one for small networks.",
        effect=Effect.RESUME,
        unit="processes",
        ge=1,
        le=64,
    )
    compile: Literal["auto", "on", "off"] = setting(
        "auto",
        "Let torch compile the gradient of networks that have none written out by hand: images, `iqn`, "
        "actions of PPO that are no single choice. `auto` does it beside the learning where the updates "
        "that are expected repay it, and keeps it if it is quicker; never for `determinism: lockstep` and "
        "PPO on the CPU, whose curves are equal to the bit. `on` does so everywhere, `off` nowhere. Without "
        "a compiler of C++ (g++) nothing is compiled.",
        effect=Effect.RESUME,
    )
    precision: Literal["float32", "mixed"] = setting(
        "float32",
        "`mixed` lets networks of images compute in bfloat16 on a GPU where that is enough; float32 is "
        "exact, and what the CPU always does.",
        effect=Effect.RESUME,
    )
    memory_limit: int | None = setting(
        None,
        "Memory for the observations of a replay memory, the numbers beside images and the action masks "
        "among them. A larger one keeps them in a file in the folder of the run, which the system reads and "
        "writes as it can: as quick as before while what is drawn fits into the computer's memory, else as "
        "quick as the disk. The file goes with the run's end; with `checkpoint.with_buffer` it stays, and a "
        "run that was stopped goes on with it. Empty: half of the computer's memory.",
        effect=Effect.RESUME,
        unit="bytes",
        ge=0,
    )

    @property
    def compiles(self) -> Literal["auto", "on", "off"]:
        """`compile`; `off` where several processes compute together: all would have to at the same time."""
        return self.compile if self.processes == 1 else "off"
