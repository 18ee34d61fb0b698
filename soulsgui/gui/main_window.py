"""The main window: toolbar, navigation, pages, banner, messages and status line put together."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QMainWindow, QMenu, QVBoxLayout, QWidget

from soulsgui.gui.closing import Closer
from soulsgui.gui.connection_state import Connection, ConnectionState
from soulsgui.gui.feed import Feed, run_is_active
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.navigation import Navigation
from soulsgui.gui.offer import OfferBar, offer_for
from soulsgui.gui.page_stack import PageStack
from soulsgui.gui.pages import table
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.shell import Action
from soulsgui.gui.theme import Theme
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.toolbar import Toolbar
from soulsgui.gui.widgets.banner import Banner
from soulsgui.gui.widgets.message_bar import MessageBar, Notice
from soulsgui.gui.widgets.status_line import StatusLine
from soulsgui.wire.control import ApiError, Event, RunStatus, Status

_SIZE = QSize(1280, 800)
_SMALLEST = QSize(900, 560)
_STATUS_EVERY_MS = 500
