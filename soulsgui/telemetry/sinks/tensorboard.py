"""Event files for TensorBoard, by its own writer."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.installing import how_to_install
from soulsgui.telemetry.sinks.records import Record

_CODE = " " * 4  # TensorBoard takes text for Markdown: so it shows it as it is


class EventFiles:
    """Writes curves and texts into an event file of a folder.

    Raises:
        UsageError: The package tensorboard is missing.
    """

    def __init__(self, folder: Path | str) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ModuleNotFoundError as error:
            raise UsageError(
                "Event files need the package tensorboard.", f"Install it: {how_to_install('tensorboard')}"
            ) from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._metadata, self._tensor, self._string = (
            summary_pb2.SummaryMetadata,
            tensor_pb2.TensorProto,
            types_pb2.DT_STRING,
        )
        writer = EventFileWriter(str(folder))
        self._add, self.flush, self.close = writer.add_event, writer.flush, writer.close

    def add(self, values: Mapping[str, float], step: int, wall_time: float) -> None:
        """Write a point of each of several curves."""
        parts = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(self._event(wall_time=wall_time, step=step, summary=self._summary(value=parts)))

    def add_text(self, tag: str, text: str, step: int, wall_time: float) -> None:
        """Write a text, which is shown as it is."""
        shown = "\n".join(_CODE + line for line in text.splitlines())
        value = self._summary.Value(
            tag=tag,
            metadata=self._metadata(plugin_data=self._metadata.PluginData(plugin_name="text")),
            tensor=self._tensor(dtype=self._string, string_val=[shown.encode()]),
        )
        self._add(self._event(wall_time=wall_time, step=step, summary=self._summary(value=[value])))


class TensorBoardSink:
    """Writes a run into its folder `tensorboard`, along environment steps."""

    def __init__(self, run: RunFolder, _settings: Settings) -> None:
        self._files = EventFiles(run.tensorboard)
        self._step = 0
        self.close = self._files.close

    def write(self, records: Iterable[Record]) -> None:
        """Write records, and let others see them."""
        for record in records:
            if record.kind != "event":
                self._step = record.env_steps
            if record.values:
                values = {f"{record.kind}/{name}": value for name, value in record.values.items()}
                self._files.add(values, record.env_steps, record.time)
            if record.text:
                self._files.add_text("events", record.text, self._step, record.time)
        self._files.flush()
