"""Sessions that people ended by logging out, until they would have ended by themselves. Pure: the time is given.

A session is a signed cookie, so nothing else can take it back. A copy of the cookie is worth nothing after the log-out.
"""

from __future__ import annotations

import heapq

from skyrocket.console.limits import ENDED_SESSIONS_MAX
from skyrocket.console.security.tokens import VisitorSession


class EndedSessions:
    """Remembers a bounded number. To make room it forgets the one that expires first; all that expire as early count as ended."""

    def __init__(self, sessions_max: int = ENDED_SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._expiries: list[tuple[int, str]] = []  # a heap: the one that expires first is left out first
        self._ids: set[str] = set()
        self._ended_until_ms = 0

    def end(self, session: VisitorSession, now_ms: int) -> None:
        if session.session_id in self._ids:
            return
        self._ids.add(session.session_id)
        heapq.heappush(self._expiries, (session.expires_ms, session.session_id))
        while self._expiries and (self._expiries[0][0] <= now_ms or len(self._expiries) > self._sessions_max):
            expires_ms, session_id = heapq.heappop(self._expiries)
            self._ids.remove(session_id)
            self._ended_until_ms = max(self._ended_until_ms, expires_ms)

    def has(self, session: VisitorSession) -> bool:
        return session.session_id in self._ids or session.expires_ms <= self._ended_until_ms

    def __len__(self) -> int:
        return len(self._expiries)
