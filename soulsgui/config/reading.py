"""Files of settings as text: whatever lies there is read, or refused in words."""

import codecs
from pathlib import Path

from soulsgui.config.errors import ConfigError, file_problem

MOST_BYTES = 256 * 2**10
"""Settings are a few kilobytes; reading more as YAML takes so long that nobody would wait."""

_TO_UTF_8 = "Save it as UTF-8 in your editor, or move it away."
_ELSEWHERE = "Mend that, or choose another folder: --config-dir DIR."
_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_settings(path: Path) -> str:
    """Return the text of a file of settings; a mark of UTF-8 at its beginning is left out.

    Raises:
        FileNotFoundError: There is none.
        ConfigError: It can't be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
            size = file.seek(0, 2)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = f"can't be read in {path.parent}: {error.strerror or error}. {_ELSEWHERE}"
        raise file_problem(path, None, reason) from error
    if len(data) > MOST_BYTES:
        raise too_large(path, size)
    return _text(path, data)


def too_large(path: Path, size: int) -> ConfigError:
    """Return the error of a file, or of a text for it, that holds more than settings."""
    reason = f"is {size / 2**20:.1f} MB large; settings take {MOST_BYTES // 2**10} KB at most. "
    return file_problem(
        path, None, f"{reason}Something else was written into it: look at it, or move it away."
    )


def _text(path: Path, data: bytes) -> str:
    for mark, name in _WIDE:
        if data.startswith(mark):
            raise file_problem(path, None, f"is written as {name}, not as UTF-8. {_TO_UTF_8}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"the byte 0x{data[error.start]:02x} is no UTF-8. {_TO_UTF_8}"
        raise file_problem(path, line, reason) from error
