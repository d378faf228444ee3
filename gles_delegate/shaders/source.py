"""A shader's text and the source of its lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOG_LINE = re.compile(r"\b0:(\d+)(?=[(:])|\b0\((\d+)\)")


@dataclass(frozen=True)
class ShaderSource:
    """A complete shader.

    Attributes:
        name: The name of its main file.
        text: The GLSL.
        lines: File and line number of each line of the text.
        image_reads: Whether it reads its inputs through buffer textures.
        image_writes: Whether it writes its output through a buffer texture.
        sizes: Values of its uniform `SIZES`; the text does not depend on them.
    """

    name: str
    text: str
    lines: tuple[tuple[str, int], ...]
    image_reads: bool
    image_writes: bool
    sizes: tuple[int, ...] = ()

    def explain(self, log: str) -> str:
        """The compiler's log with our file names, and the lines of code that it quotes.

        Drivers differ in how they treat the file number of ``#line``, so the text has none.
        """
        explained = []
        for line in log.strip().splitlines():
            match = _LOG_LINE.search(line)
            number = int(match[1] or match[2]) if match else 0
            if not match or not 0 < number <= len(self.lines):
                explained.append(line)
                continue
            file, at = self.lines[number - 1]
            explained.append(f"{line[: match.start()]}{file}:{at}{line[match.end() :]}")
            code = self.text.splitlines()
            for i in range(max(number - 3, 0), min(number + 2, len(code))):
                mark = ">" if i == number - 1 else " "
                explained.append(f"  {mark} {self.lines[i][1]:4} {code[i]}")
        return "\n".join(explained)
