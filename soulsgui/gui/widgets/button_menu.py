"""A menu that opens from a button."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu, QPushButton, QToolButton


def give_menu(button: QPushButton | QToolButton, menu: QMenu) -> None:
    """Let a button open a menu, and look as if pointed at only while it is.

    While the menu is open it has the pointer: nobody tells the button that it was left.
    """

    def look_where_the_pointer_is() -> None:
        if not button.rect().contains(button.mapFromGlobal(QCursor.pos())):
            button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
            button.update()

    button.setMenu(menu)
    menu.aboutToHide.connect(look_where_the_pointer_is)
