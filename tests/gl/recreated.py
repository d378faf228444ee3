"""Runs the Qt example, and moves its widget to another window: Qt gives it another context.

python recreated.py SCREENSHOT
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "examples")]

import live_qt  # noqa: E402
import overlay  # noqa: E402
from PySide6.QtCore import QTimer  # noqa: E402
from PySide6.QtWidgets import QMainWindow  # noqa: E402


class Moving(live_qt.View):
    contexts = 0

    def initializeGL(self) -> None:  # noqa: N802
        Moving.contexts += 1
        super().initializeGL()

    def paintGL(self) -> None:  # noqa: N802
        super().paintGL()
        if Moving.contexts == 1 and self.parent() is None:
            QTimer.singleShot(0, self.move_on)

    def move_on(self) -> None:
        if self.parent() is None:
            self._arguments.frames = 3
            self._window = QMainWindow()
            self._window.setCentralWidget(self)
            self._window.resize(*overlay.SIZE)
            self._window.show()


def main() -> None:
    live_qt.View = Moving
    sys.argv[1:] = ["--screenshot", sys.argv[1]]
    live_qt.main()


if __name__ == "__main__":
    try:
        main()
    finally:
        print(f"{Moving.contexts} contexts")
