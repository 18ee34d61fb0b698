"""Text of others made harmless for a terminal and a log: no control characters, no forged lines."""

LONGEST = 500
"""Characters of a message of others that are kept, unless told otherwise."""

_KEPT = "\n\t"


def printable(text: str, most: int | None = LONGEST, lines: bool = False) -> str:
    """Return a text without anything that steers a terminal.

    Args:
        text: Written by anybody.
        most: Characters that are kept; None keeps all.
        lines: Whether line breaks and tabs stay; else they become blanks.
    """
    if most is not None and len(text) > most:
        text = f"{text[: most - 1]}…"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or (lines and one in _KEPT) else _instead(one) for one in text)


def error_words(error: BaseException) -> str:
    """Return an exception of foreign code in words: `ValueError: bad`; also one that can't say itself."""
    try:
        said = str(error)
    except Exception as broken:
        said = f"(its words can't be read: {type(broken).__name__})"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _instead(one: str) -> str:
    return " " if one.isspace() else "\ufffd"
