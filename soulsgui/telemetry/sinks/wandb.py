"""Weights & Biases: a run there for each run here, offline (in the run's folder, to be synced) or online."""

import os
from collections.abc import Iterable

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import UsageError
from soulsgui.installing import how_to_install
from soulsgui.telemetry.sinks.records import Record


class WandbSink:
    """Writes curves along environment steps; the key is where `wandb login` keeps it, or in `WANDB_API_KEY`.

    Raises:
        UsageError: The package wandb is missing.
    """

    def __init__(self, run: RunFolder, settings: Settings) -> None:
        # Its makers are told nothing of how it is used, and of its errors, unless the user wants that.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise UsageError(
                "W&B needs the package wandb.", f"Install it: {how_to_install('wandb')}"
            ) from error
        self._end = wandb.teardown
        self._run = wandb.init(
            project=settings.telemetry.wandb_project,
            id=run.run_id,
            name=run.run_id,
            dir=run.root,
            mode=settings.telemetry.wandb,
            resume="allow",
            config=public_tree(settings),
            # Nothing but what is recorded goes there: no code, no output, no name of this computer.
            settings=wandb.Settings(
                disable_code=True, disable_git=True, console="off", x_disable_meta=True, x_disable_stats=True
            ),
        )
        self._run.define_metric("env_steps", hidden=True)
        self._run.define_metric("*", step_metric="env_steps")

    def write(self, records: Iterable[Record]) -> None:
        """Write the curves of records; W&B has no place for events."""
        for record in records:
            if record.values:
                values = {f"{record.kind}/{name}": value for name, value in record.values.items()}
                self._run.log(values | {"env_steps": record.env_steps, "_timestamp": record.time})

    def close(self) -> None:
        """Wait until everything is written, and end the process and the threads that W&B works with."""
        self._run.finish()
        self._end()
