"""Signed texts: sessions, the tokens of forms, and the notice that follows a change. Pure: the secret and the time are given.

    session cookie   name | id | expires | signature       who is logged in; nothing is kept here but log-outs (`ended_sessions`)
    form token       signature of the session's id          another site cannot know it, so it cannot post a form
    notice cookie    text | signature                       what a change did, shown on the next page

A secret lives as long as the process: after a restart people log in again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final, NamedTuple

from skyrocket.console.limits import SESSION_MS

_BETWEEN: Final = "|"
NOTICE_BYTES_MAX: Final = 2_000  # browsers drop a cookie of more than 4,096 bytes, and this grows by a third


class VisitorSession(NamedTuple):
    """Who visits, and until when. The name is empty where no login is needed."""

    user: str
    session_id: str
    expires_ms: int


class TokenSigner:
    def __init__(self, secret: bytes) -> None:
        assert len(secret) >= 32, "a short secret can be guessed"
        self._secret = secret

    def issue_session(self, user: str, session_id: str, now_ms: int) -> VisitorSession:
        return VisitorSession(user, session_id, now_ms + SESSION_MS)

    def sign_session(self, session: VisitorSession) -> str:
        """Return the text of a session's cookie."""
        return self._sign("session", _BETWEEN.join((session.user, session.session_id, str(session.expires_ms))))

    def read_session(self, cookie: str, now_ms: int) -> VisitorSession | None:
        """Return the session of a cookie; None when it is forged, damaged or too old."""
        text = self._verify("session", cookie)
        if text is None:
            return None
        user, session_id, expires_ms = text.split(_BETWEEN)
        session = VisitorSession(user, session_id, int(expires_ms))
        return session if now_ms < session.expires_ms else None

    def form_token(self, session: VisitorSession) -> str:
        return self._signature("form", session.session_id)

    def is_form_token(self, session: VisitorSession, token: str) -> bool:
        return hmac.compare_digest(self.form_token(session).encode(), token.encode(errors="replace"))

    def sign_notice(self, text: str) -> str:
        return self._sign("notice", text.encode()[:NOTICE_BYTES_MAX].decode(errors="ignore"))

    def read_notice(self, cookie: str) -> str:
        """Return the text of a notice; nothing when it is not ours."""
        return self._verify("notice", cookie) or ""

    # ---

    def _sign(self, purpose: str, text: str) -> str:
        return f"{base64.urlsafe_b64encode(text.encode()).decode()}.{self._signature(purpose, text)}"

    def _verify(self, purpose: str, signed: str) -> str | None:
        encoded, _, signature = signed.partition(".")
        try:
            text = base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
        except ValueError:
            return None
        expected = self._signature(purpose, text)
        return text if hmac.compare_digest(expected.encode(), signature.encode(errors="replace")) else None

    def _signature(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(), hashlib.sha256).hexdigest()
