"""The short import path of the helpers, `skyrocket.client.helpers`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skyrocket.client import helpers


@pytest.mark.parametrize("name", helpers.__all__)
def test_every_helper_is_importable_from_the_package(name: str):
    assert getattr(helpers, name).__module__.startswith("skyrocket.client.helpers.")
    assert name in dir(helpers)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        helpers.Nothing  # noqa: B018


def test_importing_one_helper_does_not_import_the_packages_of_others():
    script = (
        "import sys\n"
        "from skyrocket.client.helpers import Deduplicator, LossDetector, VersionCheck\n"
        "assert not {'sqlite3', 'redis', 'opentelemetry'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
