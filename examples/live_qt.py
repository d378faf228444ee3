"""Draw a network's mask over a moving picture, in PySide6's QOpenGLWidget. Q quits.

python examples/live_qt.py [--video FILE] [--model FILE]
"""

from __future__ import annotations

import argparse
import sys

import moderngl
import overlay
from imaging import ending_in_a_sentence
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent, QSurfaceFormat
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QApplication


class View(QOpenGLWidget):
    """Draws frames as fast as possible."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__()
        self._arguments = arguments
        self._live: overlay.Live | None = None
        self.failure: str | None = None
        self.resize(*overlay.SIZE)
        self.frameSwapped.connect(self.update)

    def initializeGL(self) -> None:  # noqa: N802
        """Called by Qt for every context: moving the widget to another window creates a new one."""
        # moderngl.create_context finds a second context only if it is a GLX context.
        moderngl.init_context()
        self._ctx = moderngl.get_context()
        try:
            self._live = overlay.Live(self._ctx, self._arguments)
        except SystemExit as error:  # Qt would swallow the exception
            self.failure = str(error)
            self._close_soon()
        self.context().aboutToBeDestroyed.connect(self.release)

    def paintGL(self) -> None:  # noqa: N802
        if not self._live:
            return
        # Qt draws widgets into its own framebuffers and replaces them at each resize.
        target = self._ctx.detect_framebuffer(self.defaultFramebufferObject())
        if not self._live.draw(target):
            self._close_soon()
        self.window().setWindowTitle(self._live.title)

    def release(self) -> None:
        """Free the GL objects while the context exists."""
        if self._live:
            self.makeCurrent()
            self._live.close()
            self._live = None
            self.doneCurrent()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Q:
            self.window().close()

    def _close_soon(self) -> None:
        QTimer.singleShot(0, self.window().close)  # not while Qt is drawing


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    overlay.add_arguments(parser)
    arguments = parser.parse_args()

    overlay.require_display()
    surface = QSurfaceFormat()
    surface.setVersion(4, 3)
    surface.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    surface.setSwapInterval(0)
    QSurfaceFormat.setDefaultFormat(surface)
    app = QApplication(sys.argv[:1])
    view = View(arguments)
    view.show()
    app.exec()
    view.release()
    sys.exit(view.failure)


if __name__ == "__main__":
    main()
