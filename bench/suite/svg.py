"""Small SVG drawings with a light and a dark palette. GitHub shows the one that suits its reader, by a `picture` element."""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

FONT = "-apple-system, BlinkMacSystemFont, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


class Palette(NamedTuple):
    """Colours of text, of lines, and of the servers in their order."""

    text: str
    quiet: str
    line: str
    servers: tuple[str, str, str]


PALETTES = {
    "light": Palette("#1f2328", "#59636e", "#d1d9e0", ("#0969da", "#bf8700", "#8c959f")),
    "dark": Palette("#f0f6fc", "#9198a1", "#3d444d", ("#4493f8", "#d29922", "#7d8590")),
}


class Drawing:
    """Shapes on a transparent ground. Coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, palette: Palette) -> None:
        self._width, self.palette = width, palette
        self._shapes: list[str] = []
        self.height = 0.0

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._reach(y + height)
        self._shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width):.1f}" height="{height:.1f}" rx="2" fill="{colour}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> None:
        self._reach(max(y1, y2))
        self._shapes.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
        )

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        self._reach(y + radius)
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def text(
        self, x: float, y: float, words: str, colour: str, size: int = 12, anchor: str = "start", bold: bool = False
    ) -> None:
        """Write words whose middle line is at `y`."""
        self._reach(y + size / 2)
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:.1f}" y="{y + size * 0.35:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
            f"{escape(words)}</text>"
        )

    def _reach(self, y: float) -> None:
        self.height = max(self.height, y)

    def render(self, title: str) -> str:
        height = int(self.height) + 12
        size = f'viewBox="0 0 {self._width} {height}" width="{self._width}" height="{height}"'
        inside = "\n".join(self._shapes)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
        return f"{head}\n<title>{escape(title)}</title>\n{inside}\n</svg>\n"
