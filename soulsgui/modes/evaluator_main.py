"""`soulsgui evaluator`: the evaluator as a process."""

import logging

from soulsgui.config.load import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.errors import UsageError
from soulsgui.modes.evaluator import Evaluator
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.wire.connection import Address

logger = logging.getLogger(__name__)


def run_evaluator(run: RunFolder, address: Address) -> int:
    """Evaluate the weights of a run until the process is asked to stop; call it in the main thread.

    Args:
        run: The run's folder, with its configuration.
        address: The server.

    Returns:
        The exit code.

    Raises:
        ConfigError: The run's configuration is missing or invalid.
        UsageError: It wants no evaluations.
    """
    stop = stop_on_signals()
    settings = load_run_settings(run.config)
    if not settings.evaluates_every:
        raise UsageError(
            f"Run {run.run_id} has no evaluations.", "Say how often in its settings: evaluation.every_updates"
        )
    setup_logging(settings.logging.level)
    Evaluator(settings, run, address, stop).run()
    logger.info("ended")
    return 0
