"""Translation of the texts on screen, for code that is not a QObject."""

from PySide6.QtCore import QCoreApplication

CONTEXT = "SoulsGUI"


def tr(text: str) -> str:
    """Return the translation of a text, or the text itself where there is none.

    Placeholders are those of `str.format`, filled in after the translation.
    """
    return QCoreApplication.translate(CONTEXT, text)


def plural(number: int, one: str, many: str) -> str:
    """Return a translated text that fits a number, which stands in it as `{n}`.

    Args:
        number: The number.
        one: English text for exactly one.
        many: English text for every other number.
    """
    return tr(one if number == 1 else many).format(n=f"{number:,}")
