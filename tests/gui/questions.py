"""Questions that the window asks, and their answers."""

from PySide6.QtWidgets import QMessageBox, QWidget


def question(parent: QWidget) -> QMessageBox:
    (box,) = (box for box in parent.findChildren(QMessageBox) if box.isVisible())
    return box


def answer(parent: QWidget, words: str) -> None:
    box = question(parent)
    next(button for button in box.buttons() if button.text().replace("&", "") == words).click()
