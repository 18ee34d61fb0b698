"""A look at what a client's game shows, as long as somebody looks."""

import base64

from PySide6.QtCore import QTimer
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QStackedWidget, QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.watching.picture import PictureView
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.labels import muted, wrapped
from soulsgui.wire.control import ApiError, ClientStatus
from soulsgui.wire.messages.session import GamePicture

_EVERY_MS = 500
_HINT = "The first environment that it plays, twice a second."
_SIZE = (560, 460)


def image_of(picture: GamePicture) -> QImage:
    """Return a picture of a client; one without a pixel where it is not of the size that it tells."""
    try:
        rgb = base64.b64decode(picture.rgb, validate=True)
    except ValueError:
        return QImage()
    width, height = picture.width, picture.height
    if len(rgb) != 3 * width * height:
        return QImage()
    return QImage(rgb, width, height, 3 * width, QImage.Format.Format_RGB888).copy()


class LookDialog(FittingDialog):
    """Shows two pictures a second; the main window can be used meanwhile."""

    def __init__(self, feed: Feed, client: ClientStatus, parent: QWidget | None = None) -> None:
        super().__init__("lookDialog", f"What {client.name} plays", parent)
        self.picture = PictureView(self)
        self.empty = EmptyState("watch", "Waiting for a picture", "", "", "", self)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.picture)
        self.words = muted(wrapped(_HINT, self))
        self.arrange((self.stack, 1), self.words, foot=self.foot())
        self.resize(*_SIZE)
        ask = {"client": client.id}
        self._fetch = Fetch(self, lambda: feed.ask("clients.look", ask), came=self._take, failed=self._failed)
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self._fetch.request)
        self._timer.start()
        self._fetch.request()

    def _take(self, picture: GamePicture) -> None:
        image = image_of(picture)
        if image.isNull():
            self.empty.say("A picture came that can't be shown", "Its data does not have the size it states.")
        self.words.setText(_HINT)
        self.picture.show_image(image)
        self.stack.setCurrentWidget(self.empty if image.isNull() else self.picture)

    def _failed(self, error: ApiError) -> None:
        if self.stack.currentWidget() is self.picture:  # it waits between two rounds, perhaps
            self.words.setText(error.message)
        else:
            self.empty.say(error.message, error.remedy)
