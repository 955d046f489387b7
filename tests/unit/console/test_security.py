"""Users, sessions, tokens, hosts and the throttle of logins: pure, with a given time."""

from __future__ import annotations

import pytest

from skyrocket.console.errors import ConsoleError
from skyrocket.console.limits import LOGIN_FAILURES_MAX, LOGIN_PAUSE_MS, SESSION_MS, THROTTLED_ADDRESSES_MAX
from skyrocket.console.security.ended_sessions import EndedSessions
from skyrocket.console.security.hosts import AllowedHosts, host_name, is_loopback, is_same_origin
from skyrocket.console.security.login_throttle import LoginThrottle
from skyrocket.console.security.tokens import TokenSigner, VisitorSession
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password, is_password, parse_users

NOW_MS = 1_800_000_000_000
SALT = b"0123456789abcdef"
ANN = ConsoleUser("ann", ConsoleRole.OPERATOR, hash_password("correct horse", SALT))


def test_a_password_has_its_hash_and_no_other_has():
    assert is_password("correct horse", ANN.password_hash)
    assert not is_password("correct horsf", ANN.password_hash)
    assert not is_password("", ANN.password_hash)
    assert "correct" not in ANN.password_hash


def test_users_are_read_from_their_lines():
    text = f"# people\n\n{format_user(ANN)}\n  {format_user(ANN._replace(name='bob', role=ConsoleRole.VIEWER))}\n"
    users = parse_users(text, "users.txt")
    assert users["ann"] == ANN
    assert users["bob"].role < users["ann"].role


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no user"),
        ("ann", "Line 1 of users.txt is not name:role:hash"),
        ("ann:operator:secret", "Line 1"),
        (f"ann:admin:{ANN.password_hash}", "Line 1"),
        (f"a b:viewer:{ANN.password_hash}", "Line 1"),
        (f"ann:viewer:{ANN.password_hash.replace('16384', '2')}", "Line 1"),  # a weak hash
        (f"ann:viewer:{ANN.password_hash.replace('16384', '1073741824')}", "Line 1"),  # one that takes all memory
        (f"{format_user(ANN)}\n{format_user(ANN)}", "has user 'ann' again"),
    ],
)
def test_a_file_that_is_none_of_users_is_refused_with_its_line(text: str, sentence: str):
    with pytest.raises(ConsoleError, match=sentence):
        parse_users(text, "users.txt")


@pytest.mark.parametrize("password", ["", "seven77", "x" * 257])
def test_a_password_is_neither_short_nor_endless(password: str):
    with pytest.raises(ConsoleError, match="8 to 256"):
        hash_password(password, SALT)


# --- sessions and tokens


def make_signer(secret: bytes = b"s" * 32) -> TokenSigner:
    return TokenSigner(secret)


def test_a_session_is_read_back_until_it_ends():
    signer = make_signer()
    session = signer.issue_session("ann", "id-1", NOW_MS)
    cookie = signer.sign_session(session)
    assert signer.read_session(cookie, NOW_MS + SESSION_MS - 1) == session
    assert signer.read_session(cookie, NOW_MS + SESSION_MS) is None


def test_a_changed_or_foreign_cookie_is_no_session():
    signer = make_signer()
    session = signer.issue_session("ann", "id-1", NOW_MS)
    cookie = signer.sign_session(session)
    assert make_signer(b"t" * 32).read_session(cookie, NOW_MS) is None
    for position in range(len(cookie)):
        changed = cookie[:position] + ("A" if cookie[position] != "A" else "B") + cookie[position + 1 :]
        found = signer.read_session(changed, NOW_MS)
        assert found in (None, session), changed  # base64 has bits that mean nothing
    for text in ("", ".", "a.b", "é.é", cookie.partition(".")[0], "." + cookie.partition(".")[2]):
        assert signer.read_session(text, NOW_MS) is None


def test_a_notice_is_no_session_and_a_token_belongs_to_its_session():
    signer = make_signer()
    mine, other = signer.issue_session("ann", "id-1", NOW_MS), signer.issue_session("ann", "id-2", NOW_MS)
    assert signer.read_session(signer.sign_notice(f"ann|id-1|{NOW_MS * 2}"), NOW_MS) is None
    assert signer.read_notice(signer.sign_notice("Done.")) == "Done."
    assert signer.read_notice("Pay here.x") == ""
    assert len(signer.sign_notice("€" * 5_000)) < 4_000, "a browser would drop it"
    assert signer.is_form_token(mine, signer.form_token(mine))
    assert not signer.is_form_token(other, signer.form_token(mine))
    assert not signer.is_form_token(mine, "é")


def test_a_session_that_was_ended_stays_ended_and_the_list_is_bounded():
    ended = EndedSessions(sessions_max=3)
    sessions = [VisitorSession("ann", f"id-{number}", NOW_MS + number) for number in range(1, 6)]
    other = VisitorSession("ann", "other", NOW_MS + 6)
    for session in (sessions[3], sessions[0], sessions[4], sessions[2], sessions[2], sessions[1]):
        ended.end(session, NOW_MS)
    assert len(ended) == 3
    assert all(map(ended.has, sessions)), "also those that were left out"
    assert not ended.has(other)
    ended.end(other, NOW_MS + 5)
    assert len(ended) == 1, "what has expired needs no place"


# --- hosts


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost:8082", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:8082", "::1"),
        ("[::1]", "::1"),
        ("EXAMPLE.com", "example.com"),
    ],
)
def test_name_of_a_host_header(header: str, name: str):
    assert host_name(header) == name


def test_on_loopback_only_its_own_names_are_served():
    hosts = AllowedHosts("127.0.0.1", ["console.example"])
    assert [
        name for name in ("127.0.0.1:8082", "localhost:8082", "[::1]:8082", "console.example") if not hosts.allows(name)
    ] == []
    assert [
        name for name in ("", "evil.example", "127.0.0.1.evil.example", "10.0.0.7", "localhost.evil") if hosts.allows(name)
    ] == []


def test_beyond_loopback_an_address_in_numbers_is_served_and_a_foreign_name_is_not():
    hosts = AllowedHosts("0.0.0.0")
    assert hosts.allows("10.0.0.7:8082")
    assert hosts.allows("[2001:db8::7]:8082")
    assert not hosts.allows("evil.example:8082")


def test_where_a_form_comes_from():
    assert is_same_origin("", "localhost:8082")
    assert is_same_origin("http://localhost:8082", "localhost:8082")
    assert not is_same_origin("http://localhost:9999", "localhost:8082")
    assert not is_same_origin("null", "localhost:8082")
    assert [host for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "10.0.0.1", "example.com") if is_loopback(host)] == []


# --- throttle


def test_an_address_waits_after_five_failures_and_others_do_not():
    throttle = LoginThrottle()
    for number in range(LOGIN_FAILURES_MAX):
        assert throttle.wait_ms("10.0.0.7", NOW_MS + number) == 0
        throttle.note_failure("10.0.0.7", NOW_MS + number)
    last = NOW_MS + LOGIN_FAILURES_MAX - 1
    assert throttle.wait_ms("10.0.0.7", last) == LOGIN_PAUSE_MS
    assert throttle.wait_ms("10.0.0.8", last) == 0
    assert throttle.wait_ms("10.0.0.7", last + LOGIN_PAUSE_MS) == 0


def test_a_success_forgets_failures_and_the_table_is_bounded():
    throttle = LoginThrottle()
    for _ in range(LOGIN_FAILURES_MAX):
        throttle.note_failure("10.0.0.7", NOW_MS)
    throttle.note_success("10.0.0.7")
    assert throttle.wait_ms("10.0.0.7", NOW_MS) == 0
    for number in range(THROTTLED_ADDRESSES_MAX + 10):
        throttle.note_failure(f"address {number}", NOW_MS)
    assert len(throttle._failures) == THROTTLED_ADDRESSES_MAX
