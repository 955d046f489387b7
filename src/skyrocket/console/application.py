"""The console as a web application: the table of routes, and what every request has to pass.

    request ─▶ a host of ours? ─▶ a session? ─▶ a cluster of ours? ─▶ its role may? ─▶ a form with its token? ─▶ the page ─▶ HTML

With several clusters, the address of a page begins with its cluster, so two people, or two windows, can look at two clusters.

Only POST changes anything. Every form has a token that only our own pages know, and is refused if another site sent it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skyrocket.client import ClientError, NoRouteError, NotFoundError
from skyrocket.console.body_views import escape_controls
from skyrocket.console.clusters import ServedCluster
from skyrocket.console.errors import InputError, MissingPageError, NotConnectedError, NotPermittedError, VisitError
from skyrocket.console.forms import Fields, parse_fields
from skyrocket.console.limits import FORM_BYTES_MAX, FORM_S_MAX, PATH_CHARACTERS_MAX, SESSION_MS
from skyrocket.console.pages import ROUTES, PageRoute
from skyrocket.console.pages.clusters import show_clusters
from skyrocket.console.security.ended_sessions import EndedSessions
from skyrocket.console.security.hosts import AllowedHosts, is_same_origin
from skyrocket.console.security.login_throttle import LoginThrottle
from skyrocket.console.security.tokens import TokenSigner, VisitorSession
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, is_password
from skyrocket.console.views import ASSETS, read_asset, render, section_of
from skyrocket.console.visit import Answer, Download, Page, Redirect, Visit, Visitor
from skyrocket.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

SESSION_COOKIE: Final = "skyrocket_session"
NOTICE_COOKIE: Final = "skyrocket_notice"
CSRF_FIELD: Final = "token"
_LOGIN: Final = "/login"
# Verified when a user does not exist, so that the time of an answer does not tell which users do.
_NOBODY_HASH: Final = f"scrypt$16384$8$1${'A' * 22}==${'A' * 43}="

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every response. A text that got through the escaping could still run no script and load nothing."""


class Access(NamedTuple):
    """Who may use the console, and under which names it may be asked."""

    hosts: AllowedHosts
    users: Mapping[str, ConsoleUser] | None  # None: nobody logs in, and everybody is an operator


class ConsoleApplication:
    """Call `asgi` to get the application."""

    def __init__(
        self, clusters: Sequence[ServedCluster], access: Access, wall_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    ) -> None:
        assert clusters, "a console has a cluster"
        self._clusters = {one.name: one for one in clusters}
        self._only = clusters[0] if len(clusters) == 1 else None
        self._access = access
        self._wall_ms = wall_ms
        self._signer = TokenSigner(secrets.token_bytes(32))
        self._ended = EndedSessions()
        self._throttle = LoginThrottle()
        self._password_turns = asyncio.Semaphore(1)  # a password costs 16 MiB and 50 ms

    def asgi(self) -> ASGIApp:
        prefix = "" if self._only else "/c/{cluster}"
        routes = [Route(prefix + route.path, self._endpoint(route), methods=[route.method]) for route in ROUTES]
        if not self._only:
            routes.append(Route("/", self._list_clusters, methods=["GET"]))
        routes += [
            Route("/assets/{name}", self._asset, methods=["GET"]),
            Route("/healthz", self._health, methods=["GET"]),
            Route(_LOGIN, self._show_login, methods=["GET"]),
            Route(_LOGIN, self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]
        handlers = {404: self._missing, 405: self._missing, 500: self._failed}
        return SecurityHeaders(Starlette(routes=routes, exception_handlers=handlers), self._access.hosts)

    # --- pages

    def _endpoint(self, route: PageRoute) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            session, visitor, is_new = self._recognize(request)
            if session is None:
                return self._to_login(request)
            cluster: ServedCluster | None = None
            try:
                cluster = self._find_cluster(request)
                visit = await self._make_visit(request, route, session, visitor, cluster)
                async with cluster.turns:
                    answered = await route.page(visit)
            except VisitError as error:
                answered = _error_page(error.status, str(error))
            except (ClientError, ProtocolError) as error:
                answered = _error_page(_status_of(error), str(error))
            if isinstance(answered, Redirect) and answered.change:
                where = "" if self._only or cluster is None else f" (cluster {cluster.name})"
                change = " ".join(escape_controls(answered.change).split())
                log.info("%s: %s%s", visitor.name or visitor.address, change, where)
            response = self._respond(answered, request, session, visitor, cluster, section_of(route.path))
            if is_new:
                self._set_session(response, request, session)
            return response

        return answer

    async def _list_clusters(self, request: Request) -> Response:
        session, visitor, is_new = self._recognize(request)
        if session is None:
            return self._to_login(request)
        response = self._respond(show_clusters(list(self._clusters.values())), request, session, visitor)
        if is_new:
            self._set_session(response, request, session)
        return response

    def _find_cluster(self, request: Request) -> ServedCluster:
        """Return the cluster that an address names. One that cannot be connected has no pages, but a sentence."""
        name = str(request.path_params.get("cluster", ""))
        cluster = self._only or self._clusters.get(name)
        if cluster is None:
            raise MissingPageError(f"This console has no cluster {name[:200]}.")
        return cluster

    def _recognize(self, request: Request) -> tuple[VisitorSession | None, Visitor, bool]:
        """Return the session of a request, its visitor, and whether the session is new. None: the visitor has to log in."""
        address = request.client.host if request.client else ""
        session = self._signer.read_session(request.cookies.get(SESSION_COOKIE, ""), self._wall_ms())
        if session is not None and self._ended.has(session):
            session = None
        users = self._access.users
        if users is None:
            is_new = session is None or bool(session.user)
            if session is None or is_new:
                session = self._signer.issue_session("", secrets.token_urlsafe(16), self._wall_ms())
            return session, Visitor("", ConsoleRole.OPERATOR, address), is_new
        user = users.get(session.user) if session is not None else None
        if session is None or user is None:
            return None, Visitor("", ConsoleRole.VIEWER, address), False
        return session, Visitor(user.name, user.role, address), False

    async def _make_visit(
        self, request: Request, route: PageRoute, session: VisitorSession, visitor: Visitor, cluster: ServedCluster
    ) -> Visit:
        if len(request.url.path) + len(request.url.query) > PATH_CHARACTERS_MAX:
            raise InputError("This address is too long.")
        form = Fields()
        if route.method == "POST":
            form = await self._read_form(request)
            self._check_form(request, session, form)
        if visitor.role < route.role:
            raise NotPermittedError(
                f"This needs the role {route.role.name.lower()}. You are {visitor.name}, a {visitor.role.name.lower()}."
            )
        if cluster.clients is None:
            raise NotConnectedError(cluster.error)
        path = {name: str(value) for name, value in request.path_params.items()}
        return Visit(cluster.clients, visitor, path, parse_fields(request.url.query), form, self._wall_ms())

    async def _read_form(self, request: Request) -> Fields:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise InputError("A form is sent as application/x-www-form-urlencoded.")
        received = bytearray()
        try:
            async with asyncio.timeout(FORM_S_MAX):
                async for part in request.stream():
                    received += part
                    if len(received) > FORM_BYTES_MAX:
                        raise InputError(f"A form has at most {FORM_BYTES_MAX // 1024**2} MiB.")
        except TimeoutError:
            raise InputError(f"The form did not arrive within {FORM_S_MAX:g} s.") from None
        return parse_fields(received.decode("latin-1"))

    def _check_form(self, request: Request, session: VisitorSession, form: Fields) -> None:
        if not is_same_origin(request.headers.get("origin", ""), request.headers.get("host", "")):
            raise NotPermittedError("Another site sent this form. Nothing was changed.")
        if not self._signer.is_form_token(session, form.text(CSRF_FIELD)):
            raise NotPermittedError(
                "This form is too old, or does not come from this console. Open the page again. Nothing was changed."
            )

    def _respond(
        self,
        answer: Answer,
        request: Request,
        session: VisitorSession,
        visitor: Visitor,
        cluster: ServedCluster | None = None,
        section: str = "",
    ) -> Response:
        cluster = cluster or self._only
        base = cluster.base if cluster else ""
        match answer:
            case Redirect():
                response: Response = RedirectResponse(base + answer.to, HTTPStatus.SEE_OTHER)
                if answer.notice:
                    cookie = self._signer.sign_notice(answer.notice)
                    response.set_cookie(NOTICE_COOKIE, cookie, max_age=60, httponly=True, samesite="strict")
                return response
            case Download():
                disposition = f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
                return Response(answer.content, headers={"Content-Disposition": disposition}, media_type=answer.content_type)
        notice = self._signer.read_notice(request.cookies.get(NOTICE_COOKIE, ""))
        common = {
            "title": answer.title,
            "visitor": visitor,
            "has_login": self._access.users is not None,
            "token": self._signer.form_token(session),
            "notice": notice,
            "section": section,
            "now_ms": self._wall_ms(),
            "cluster_name": cluster.name if cluster else "",
            "how": cluster.arguments if cluster else "",
            "served": [] if self._only else list(self._clusters.values()),
        }
        assert not common.keys() & answer.values.keys(), "a page has values of its own names"
        response = HTMLResponse(render(answer.template, {**answer.values, **common}, base), answer.status)
        if notice:
            response.delete_cookie(NOTICE_COOKIE)
        return response

    def _missing(self, request: Request, _error: Exception) -> Response:
        session, visitor, _ = self._recognize(request)
        if session is None:
            return self._to_login(request)
        return self._respond(
            _error_page(MissingPageError.status, f"There is no page {request.url.path[:200]}."), request, session, visitor
        )

    def _failed(self, _request: Request, _error: Exception) -> Response:
        return PlainTextResponse("This page failed. The console's log says why.\n", HTTPStatus.INTERNAL_SERVER_ERROR)

    # --- login

    def _to_login(self, request: Request) -> Response:
        if request.method != "GET":
            return PlainTextResponse("Log in first. Nothing was changed.\n", HTTPStatus.FORBIDDEN)
        return RedirectResponse(
            f"{_LOGIN}?next={quote(_own_path(request.url.path, request.url.query), safe='')}", HTTPStatus.SEE_OTHER
        )

    async def _show_login(self, request: Request) -> Response:
        return self._login_page(parse_fields(request.url.query).text("next"))

    def _login_page(self, after: str, error: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
        if self._access.users is None:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        return HTMLResponse(render("login.html", {"after": after, "error": error}), status)

    async def _log_in(self, request: Request) -> Response:
        """Check name and password. There is no session yet, so no token: the Origin header tells where the form comes from."""
        address = request.client.host if request.client else ""
        try:
            form = await self._read_form(request)
        except InputError as error:
            return self._login_page("", str(error), error.status)
        after = form.text("next")
        if not is_same_origin(request.headers.get("origin", ""), request.headers.get("host", "")):
            return self._login_page(after, "Another site sent this form.", HTTPStatus.FORBIDDEN)
        user = (self._access.users or {}).get(form.text("name"))
        password_hash = user.password_hash if user else _NOBODY_HASH
        async with self._password_turns:  # what others from this address tried meanwhile counts
            wait_ms = self._throttle.wait_ms(address, self._wall_ms())
            if wait_ms:
                sentence = f"Too many wrong passwords. Try again in {wait_ms // 1000 + 1} s."
                return self._login_page(after, sentence, HTTPStatus.TOO_MANY_REQUESTS)
            is_right = await asyncio.to_thread(is_password, form.raw("password"), password_hash)
            if user is None or not is_right:
                self._throttle.note_failure(address, self._wall_ms())
                log.warning("A login from %s was refused.", address)
                return self._login_page(after, "The name or the password is wrong.", HTTPStatus.FORBIDDEN)
        self._throttle.note_success(address)
        session = self._signer.issue_session(user.name, secrets.token_urlsafe(16), self._wall_ms())
        response = RedirectResponse(_safe_path(after), HTTPStatus.SEE_OTHER)
        self._set_session(response, request, session)
        return response

    async def _log_out(self, request: Request) -> Response:
        session, _, _ = self._recognize(request)
        if session is not None:
            try:
                self._check_form(request, session, await self._read_form(request))
            except VisitError as error:
                return PlainTextResponse(f"{error}\n", error.status)
            self._ended.end(session, self._wall_ms())
        response = RedirectResponse(_LOGIN, HTTPStatus.SEE_OTHER)
        response.delete_cookie(SESSION_COOKIE)
        return response

    def _set_session(self, response: Response, request: Request, session: VisitorSession) -> None:
        cookie = self._signer.sign_session(session)
        response.set_cookie(
            SESSION_COOKIE,
            cookie,
            max_age=SESSION_MS // 1000,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    # --- files

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return PlainTextResponse("There is no such file.\n", HTTPStatus.NOT_FOUND)
        return Response(
            read_asset(name), media_type=ASSETS[name], headers={"Cache-Control": "public, max-age=31536000, immutable"}
        )

    async def _health(self, _request: Request) -> Response:
        return PlainTextResponse("The console serves.\n")


class SecurityHeaders:
    """Refuses requests for a host that is not ours, and adds the headers of HEADERS to every response."""

    def __init__(self, inner: ASGIApp, hosts: AllowedHosts) -> None:
        self._inner = inner
        self._hosts = hosts
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message["headers"])
                if not any(name.lower() == b"cache-control" for name, _ in given):
                    given.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*given, *self._headers]}
            await send(message)

        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if not self._hosts.allows(host):
            sentence = "The console does not serve this host name. Allow it with: skyrocket console --allow-host NAME\n"
            await PlainTextResponse(sentence, HTTPStatus.MISDIRECTED_REQUEST)(scope, receive, send_with_headers)
            return
        await self._inner(scope, receive, send_with_headers)


def _error_page(status: HTTPStatus, sentence: str) -> Page:
    return Page("error.html", status.phrase, {"sentence": sentence, "status": status}, status)


def _status_of(error: ClientError | ProtocolError) -> HTTPStatus:
    """Return the status for what the client refused, or the cluster did not do."""
    if isinstance(error, NotFoundError | NoRouteError):
        return HTTPStatus.NOT_FOUND
    return HTTPStatus.BAD_REQUEST if isinstance(error, ValueError) else HTTPStatus.BAD_GATEWAY


def _own_path(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _safe_path(path: str) -> str:
    """Return a path of ours to go to after the login: never another site, whatever an address says."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return quote(path, safe="/?&=%+:@,;~.-_") if is_ours else "/"
