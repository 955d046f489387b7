"""Each scene of the client is played against our servers and, where Apache has them too, against Apache's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.servers import Servers, apache_servers, our_servers

EACH = [pytest.param("ours"), pytest.param("apache", marks=pytest.mark.interop)]


@pytest.fixture(scope="package")  # no longer: a broker without work takes 4 % of a core
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with apache_servers(tmp_path_factory.mktemp("apache")) as servers:
        yield servers


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with our_servers(tmp_path_factory.mktemp("ours")) as servers:
        yield servers


@pytest.fixture(params=EACH)
def servers(request: pytest.FixtureRequest) -> Servers:
    found: Servers = request.getfixturevalue(request.param)
    return found
