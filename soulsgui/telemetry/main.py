"""`soulsgui telemetry`: the telemetry node as a process."""

import logging

from soulsgui.config.load import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.telemetry.node import TelemetryNode
from soulsgui.wire.connection import Address
from soulsgui.wire.instance import own_instance

logger = logging.getLogger(__name__)


def run_telemetry(run: RunFolder, address: Address) -> int:
    """Run the node of a run until the process is asked to stop; call it in the main thread.

    Args:
        run: The run's folder, with its configuration.
        address: The server.

    Returns:
        The exit code.

    Raises:
        ConfigError: The run's configuration is missing or invalid.
        StoreError: The run's store is damaged or of a newer version.
    """
    stop = stop_on_signals()
    settings = load_run_settings(run.config)
    setup_logging(settings.logging.level)
    logger.info("telemetry of run %s", run.run_id)
    TelemetryNode(settings, run, address, own_instance(), stop).run()
    logger.info("ended")
    return 0
