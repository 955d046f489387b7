"""The charts of docs/charts, from a record: well-formed SVG, in a light and a dark palette, with every shape inside."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from bench.suite.charts import charts
from bench.suite.document import DOCUMENT
from bench.suite.record import APACHE, OURS, Result, RunRecord
from bench.suite.svg import PALETTES

from tests.bench.sample_record import sample_record, sample_round

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = charts(sample_record())


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawing).iter(f"{SVG}text")]


def test_each_chart_is_there_in_both_palettes():
    names = {name.rpartition("-")[0] for name in DRAWN}
    assert set(DRAWN) == {f"{name}-{theme}.svg" for name in names for theme in PALETTES}


@pytest.mark.parametrize("name", DRAWN)
def test_every_shape_is_inside_the_drawing(name: str):
    root = ET.fromstring(DRAWN[name])
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for shape in root.iter():
        at = {key: float(value) for key, value in shape.attrib.items() if re.fullmatch(r"x|y|x1|x2|y1|y2|cx|cy", key)}
        right = at.get("x", 0.0) + (float(shape.attrib["width"]) if shape.tag == f"{SVG}rect" else 0.0)
        assert 0 <= right <= width, shape.attrib
        assert all(0 <= value <= (height if "y" in key else width) for key, value in at.items()), shape.attrib


@pytest.mark.parametrize("theme", PALETTES)
def test_a_chart_uses_the_colours_of_its_palette_only(theme: str):
    palette = PALETTES[theme]
    allowed = {palette.text, palette.quiet, palette.line, *palette.servers}
    for name, drawing in DRAWN.items():
        if name.endswith(f"-{theme}.svg"):
            assert set(re.findall(r"#[0-9a-f]{6}", drawing)) <= allowed


def test_the_longest_bar_of_a_load_is_the_quickest_server():
    root = ET.fromstring(DRAWN["rates-light.svg"])
    colours = PALETTES["light"].servers
    bars = [
        element for element in root.iter(f"{SVG}rect") if float(element.attrib["x"]) > 200 and float(element.attrib["y"]) > 40
    ]
    ours = [float(bar.attrib["width"]) for bar in bars if bar.attrib["fill"] == colours[0]]
    theirs = [float(bar.attrib["width"]) for bar in bars if bar.attrib["fill"] == colours[1]]
    assert ours
    assert min(ours) == pytest.approx(10 * max(theirs), rel=0.01)


def test_refusals_stand_beside_their_bar():
    record = RunRecord(results=[Result("batch-4x64", OURS, [sample_round(1.0, refused=20_000)])])
    assert "100,000, 20% refused" in texts(charts(record)["rates-dark.svg"])


def test_latencies_have_a_dot_for_each_server_and_a_scale():
    record = RunRecord(results=[Result("sync-1", OURS, [sample_round(1.0)]), Result("sync-1", APACHE, [sample_round(10.0)])])
    drawing = charts(record)["latencies-light.svg"]
    dots = [float(dot.attrib["cx"]) for dot in ET.fromstring(drawing).iter(f"{SVG}circle")]
    assert len(dots) == 2
    assert dots[0] < dots[1]
    assert {"10 µs", "1 ms", "100 ms"} <= set(texts(drawing))


def test_an_empty_record_draws_empty_charts():
    for drawing in charts(RunRecord()).values():
        ET.fromstring(drawing)


def test_the_document_shows_every_chart():
    shown = set(re.findall(r"charts/([\w-]+\.svg)", DOCUMENT.read_text()))
    assert shown == set(DRAWN)
