"""Pages as HTML: the template engine, and the formats that templates use. Everything that a template shows is escaped."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skyrocket.console.body_views import escape_controls, preview_body
from skyrocket.console.limits import CLUSTERS_MAX
from skyrocket.console.visit import address_of
from skyrocket.report.charts import draw_lines
from skyrocket.report.parts import LineChart
from skyrocket.report.texts import count_of, format_bytes, format_duration, format_moment, format_number

ASSETS: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files that a page loads, and their types. There are no others, and none comes from elsewhere."""

NAVIGATION: Final = (
    ("/", "Overview", "o"),
    ("/cluster", "Cluster", "c"),
    ("/topics", "Topics", "t"),
    ("/groups", "Groups", "g"),
    ("/messages", "Messages", "m"),
    ("/dead-letters", "Dead letters", "d"),
    ("/waiting", "Waiting", "w"),
    ("/access", "Access", "a"),
    ("/doctor", "Doctor", "x"),
)
"""The pages of a cluster in the menu, each with the key that opens it behind `g`."""

_SECTIONS: Final = {"/brokers": "/cluster", "/new-topic": "/topics", "/new-group": "/groups", "/message": "/messages"}


def section_of(path: str) -> str:
    """Return the page of the menu to which a path within a cluster belongs."""
    first = f"/{path.split('/')[1]}"
    return _SECTIONS.get(first, first)


def draw_chart(chart: LineChart) -> Markup:
    """Draw a chart. `skyrocket.report` escapes every text in it."""
    return Markup(draw_lines(chart))  # noqa: S704


def format_ago(time_ms: int, now_ms: int) -> str:
    """Say how long ago something was. A dash when there is no time."""
    return f"{format_duration(max(0, now_ms - time_ms))} ago" if time_ms > 0 else "–"


def format_span_ms(value: float | None) -> str:
    """Format a bound of durations: ≤ 0.25 ms. A dash when there is none, and > when it is beyond all bounds."""
    if value is None:
        return "–"
    if value == math.inf:
        return "> 5 s"
    return f"≤ {value / 1000:g} s" if value >= 1000 else f"≤ {value:g} ms"


@cache
def read_asset(name: str) -> bytes:
    """Return a file that a page loads. The style sheet begins with the palette that reports have, too."""
    own = files(__package__).joinpath("assets", name).read_bytes()
    return files("skyrocket.report").joinpath("palette.css").read_bytes() + own if name == "console.css" else own


@cache
def asset_address(name: str) -> str:
    """Return the address of an asset. It changes with the content, so that a browser may keep the file."""
    return f"/assets/{name}?v={hashlib.sha256(read_asset(name)).hexdigest()[:12]}"


def _show_controls(value: Any) -> Any:
    """Show control characters of every text in a page, before it is escaped. Markup is ours, and stays."""
    return escape_controls(value) if type(value) is str and not value.isprintable() else value


@lru_cache(CLUSTERS_MAX + 1)
def _environment(base: str) -> Environment:
    """Return the engine for the pages of one cluster: `link` is everywhere in a template, and knows where the cluster is."""

    def link(*parts: str, **query: object) -> str:
        return base + address_of(*parts, **query)

    environment = Environment(
        loader=PackageLoader("skyrocket.console", "templates"),
        autoescape=True,
        finalize=_show_controls,
        undefined=StrictUndefined,  # a mistake in a template is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "ago": format_ago,
        "bytes": format_bytes,
        "chart": draw_chart,
        "duration": format_duration,
        "moment": format_moment,
        "number": format_number,
        "preview": preview_body,
        "shell": shlex.quote,
        "span": format_span_ms,
    }
    environment.globals |= {"asset": asset_address, "base": base, "count_of": count_of, "link": link, "navigation": NAVIGATION}
    return environment


def render(template: str, values: Mapping[str, Any], base: str = "") -> str:
    """Render a page. The addresses in it begin with `base`."""
    return _environment(base).get_template(template).render(values)
