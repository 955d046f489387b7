"""Tests run the project's modules as users do, from the bytecode that Python keeps of them.

pytest rewrites the asserts of test files, so that a failure shows the values. It also rewrites every module of a package that has
a pytest plugin, as this project has one. Here that would be some 800 modules, which each worker of a fresh clone compiles anew,
and asserts of the send path would cost more than they do in a broker.
"""

from __future__ import annotations

import sys

from _pytest.assertion.rewrite import AssertionRewritingHook

PACKAGE = "skyrocket"


def leave_sources_as_they_are() -> None:
    """Make pytest import the package without rewriting it."""
    for finder in sys.meta_path:
        if isinstance(finder, AssertionRewritingHook):
            finder._must_rewrite.discard(PACKAGE)
            finder._marked_for_rewrite_cache.clear()
