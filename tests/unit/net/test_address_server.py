"""Nameservers listed by an HTTP server."""

from __future__ import annotations

import pytest

from skyrocket.net.address_server import address_server_url, fetch_address_list
from skyrocket.net.errors import NetError
from tests.support.processes.address_server import AddressServer


@pytest.mark.parametrize(
    ("domain", "url"),
    [
        ("names", "http://names:8080/rocketmq/nsaddr"),
        ("names:80", "http://names:80/rocketmq/nsaddr"),
        ("https://names/list?unit=a", "https://names/list?unit=a"),
    ],
)
def test_a_domain_becomes_the_url_that_javas_programs_ask(domain: str, url: str):
    assert address_server_url(domain) == url


def test_the_group_is_the_last_part_of_the_path():
    assert address_server_url("names", "unit-a") == "http://names:8080/rocketmq/unit-a"


async def test_the_first_word_of_the_answer_is_the_list():
    with AddressServer(" 10.0.0.1:9876;10.0.0.2:9876 \n\n") as server:
        assert await fetch_address_list(f"http://{server.domain}/x?y=z") == "10.0.0.1:9876;10.0.0.2:9876"
        assert server.paths == {"/x?y=z"}
        server.text = ""
        assert await fetch_address_list(f"http://{server.domain}") == ""


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("gopher://names", "'gopher://names' is not the URL of an address server. Use a URL such as http://"),
        ("http://names:high/", "'http://names:high/' is not the URL of an address server."),
        ("http://127.0.0.1:1/", "The address server http://127.0.0.1:1/ does not answer: Connection refused."),
    ],
)
async def test_what_goes_wrong_is_one_sentence(url: str, reason: str):
    with pytest.raises(NetError) as failed:
        await fetch_address_list(url)
    assert str(failed.value).startswith(reason)
