"""A web console over a cluster, in a background thread, and a visitor who reads its pages and fills in its forms.

with running_console("127.0.0.1:9876") as console:
    visitor = Visitor(console.url)
    visitor.fill("/new-topic", topic="orders")
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser

import httpx

from skyrocket.client import ClientOptions
from skyrocket.client.sync import BackgroundLoop
from skyrocket.console.clusters import name_cluster
from skyrocket.console.server import ConsoleOptions, ConsoleServer
from tests.support.waiting import WAIT_S_MAX


@contextmanager
def running_console(nameserver: str, **options: object) -> Iterator[ConsoleServer]:
    """Serve the console on a free port of loopback."""
    loop = BackgroundLoop()
    clusters = options.pop("clusters", None)
    if clusters is None:
        clusters = (name_cluster(options.pop("client", None) or ClientOptions(nameserver)),)  # type: ignore[arg-type]
    server = ConsoleServer(ConsoleOptions(clusters=clusters, port=0, **options))  # type: ignore[arg-type]
    try:
        loop.submit(server.__aenter__()).result(WAIT_S_MAX)
        try:
            yield server
        finally:
            loop.submit(server.__aexit__(None, None, None)).result(WAIT_S_MAX)
    finally:
        loop.stop()


class PageForm(HTMLParser):
    """The forms of a page, each as its action and its fields with their values, as a browser would send them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self._select = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and given.get("method") == "post":
            self.forms.append((given["action"], {}))
        elif tag == "form":
            self.forms.append(("", {}))
        elif not self.forms:
            return
        elif tag == "input" and given.get("type") == "checkbox":
            if "checked" in given and "name" in given:
                self.forms[-1][1][given["name"]] = given.get("value", "on")
        elif tag in ("input", "textarea") and "name" in given:
            self.forms[-1][1][given["name"]] = given.get("value", "")
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and ("selected" in given or self._select not in self.forms[-1][1]):
            self.forms[-1][1][self._select] = given.get("value", "")


class Visitor:
    """A browser without scripts: keeps cookies, follows redirects, and sends forms with the fields that the page has."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=WAIT_S_MAX, follow_redirects=True)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, status: int = 200) -> str:
        answer = self.http.get(path)
        assert answer.status_code == status, (path, answer.status_code, text_of(answer.text))
        return answer.text

    def read(self, path: str, status: int = 200) -> str:
        """Return what a page says, without its markup."""
        return text_of(self.get(path, status))

    def fill(self, path: str, action: str = "", /, status: int = 200, **fields: object) -> str:
        """Open a page, fill in its form, send it, and return what the next page says. `action` chooses among several forms."""
        forms = [form for form in PageForm(self.get(path)).forms if form[0] and form[0] != "/logout" and action in form[0]]
        assert forms, f"{path} has no form for {action!r}"
        target, given = next((form for form in forms if form[0] == action), forms[0])
        data = {**given, **{name: value for name, value in fields.items() if value is not None}}
        answer = self.http.post(target, data={key: value for key, value in data.items() if fields.get(key, "") is not None})
        assert answer.status_code == status, (target, answer.status_code, text_of(answer.text))
        return text_of(answer.text)


def text_of(html: str) -> str:
    without_head = re.sub(r"(?s)<(head|svg|dialog)\b.*?</\1>", " ", html)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", without_head)).split())
