"""What a page is given, and what it returns.

Visit   the path, the query, the form, who asks, the clients of the cluster
Answer  a page to render, another address to go to, or a file
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from skyrocket.client import Admin, ClientError, Producer
from skyrocket.console.forms import Fields
from skyrocket.console.history import ClusterHistory
from skyrocket.console.limits import PAGE_S_MAX, QUESTIONS_AT_ONCE
from skyrocket.console.paging import cut_page, search_names
from skyrocket.console.security.users import ConsoleRole
from skyrocket.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from skyrocket.console.examinations import Examinations
    from skyrocket.console.lag_sweep import LagSweep  # which asks with `attempt_each`

T = TypeVar("T")
A = TypeVar("A")


class Visitor(NamedTuple):
    """Who asks. The name is empty where no login is needed."""

    name: str
    role: ConsoleRole
    address: str

    @property
    def is_operator(self) -> bool:
        return self.role >= ConsoleRole.OPERATOR


@dataclass(frozen=True, slots=True)
class ClusterClients:
    """The clients that reach a cluster, and what the console knows of it."""

    admin: Admin
    producer: Producer
    history: ClusterHistory
    lags: LagSweep
    examinations: Examinations


@dataclass(frozen=True, slots=True)
class Visit:
    clients: ClusterClients
    visitor: Visitor
    path: Mapping[str, str]
    query: Fields
    form: Fields
    now_ms: int

    @property
    def admin(self) -> Admin:
        return self.clients.admin


@dataclass(frozen=True, slots=True)
class Page:
    """A page: the template, and the values that it shows."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK


class Redirect(NamedTuple):
    """Go to another page of the same cluster, which shows what was done. `change` describes it for the log."""

    to: str
    notice: str = ""
    change: str = ""


class Download(NamedTuple):
    """A file to save. A browser never shows it as a page."""

    name: str
    content: bytes
    content_type: str = "application/octet-stream"


Answer = Page | Redirect | Download
PageFunction = Callable[[Visit], Awaitable[Answer]]


class PagePart(NamedTuple, Generic[T]):
    """A part of a page: its value, or one sentence that says why there is none. So an empty list and a failure look different."""

    value: T | None
    error: str = ""

    def expect(self) -> T:
        assert self.value is not None, "the page looks at `error` first"
        return self.value


async def attempt(question: Awaitable[T]) -> PagePart[T]:
    """Ask the cluster for a part of a page. A failure is that part's sentence; the others are shown."""
    try:
        async with asyncio.timeout(PAGE_S_MAX):
            return PagePart(await question)
    except (ClientError, ProtocolError) as error:
        return PagePart(None, str(error))
    except TimeoutError:
        return PagePart(None, f"The cluster did not answer within {PAGE_S_MAX:g} s.")


async def attempt_each(items: Iterable[A], ask: Callable[[A], Awaitable[T]]) -> list[PagePart[T]]:
    """Ask one question for each row of a page, some at the same time."""
    turns = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def ask_in_turn(item: A) -> PagePart[T]:
        async with turns:
            return await attempt(ask(item))

    return list(await asyncio.gather(*(ask_in_turn(item) for item in items)))


async def list_names(
    visit: Visit, read_names: Callable[..., Awaitable[list[str]]], ask: Callable[[str], Awaitable[T]]
) -> dict[str, Any]:
    """Return the values of a list: a page of the names that the visitor searches, and what the cluster tells of each."""
    words, internal = visit.query.text("q"), visit.query.is_set("internal")
    names = await attempt(read_names(internal=internal))
    page = cut_page(search_names(names.value or [], words), visit.query.number("page", "The page", 1, 10**6) or 1)
    rows = list(zip(page.rows, await attempt_each(page.rows, ask), strict=True))
    return {"names": names, "page": page, "rows": rows, "words": words, "internal": internal}


def address_of(*parts: str, **query: object) -> str:
    """Return the address of a page within its cluster: its parts and its query are encoded, and empty values left out."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    given = {key: value for key, value in query.items() if value not in ("", None, False)}
    return f"{path}?{urlencode(given)}" if given else path
