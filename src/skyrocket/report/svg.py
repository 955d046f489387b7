"""SVG elements as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from skyrocket.report.texts import escape_text


def element(name: str, attributes: dict[str, object], content: str | Iterable[str] = "") -> str:
    """Return an element. Attributes are escaped; `content` is markup, which its maker has escaped.

    An underscore in an attribute's name stands for a hyphen, and a trailing one is dropped: `class_`.
    """
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{_attribute(value)}"' for key, value in attributes.items() if value != ""
    )
    inside = content if isinstance(content, str) else "".join(content)
    return f"<{name}{given}>{inside}</{name}>" if inside else f"<{name}{given}/>"


def _attribute(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else escape_text(value, 100_000)


def label(x: float, y: float, text: object, *, anchor: str = "middle", class_: str = "", characters_max: int = 200) -> str:
    """Return a text. Where it is cut, a tooltip has all of it."""
    whole = str(text)
    tooltip = title(whole) if len(whole) > characters_max else ""
    return element(
        "text", {"x": x, "y": y, "text_anchor": anchor, "class_": class_}, tooltip + escape_text(whole, characters_max)
    )


def title(text: str) -> str:
    """Return a tooltip, which browsers show on hover and screen readers read."""
    return f"<title>{escape_text(text)}</title>"


def drawing(width: float, height: float, description: str, content: Iterable[str]) -> str:
    """Return a picture that is as wide as its place on the page."""
    return element(
        "svg",
        {"viewBox": f"0 0 {width:.0f} {height:.0f}", "role": "img", "aria_label": description, "class_": "chart"},
        content,
    )
