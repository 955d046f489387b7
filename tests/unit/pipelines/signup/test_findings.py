"""What the sign-up demo calls lost, twice and unexpected."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import AuditReport, NumberRun, StreamKey, audit_stream
from skyrocket.pipelines.signup.findings import ExpectedWork, ServiceFindings, check_service, find_problems, name_some

QUEUE = Queue("signup", "broker-a", 0)
WORK = ExpectedWork(acknowledged={"a", "b"}, sent={"a", "b", "c"}, poison={"p"})


def audit_of(*numbers: int, sent: int) -> AuditReport:
    runs = [NumberRun(number, number, offset) for offset, number in enumerate(numbers)]
    return AuditReport([audit_stream(StreamKey("page", QUEUE), runs, sent=sent)], messages=len(numbers))


def check(effects: dict[str, int], letters: set[str], consumed: int = 4) -> ServiceFindings:
    return check_service(WORK, effects, letters, stored=4, consumed=consumed)


def test_each_user_once_and_poison_among_the_letters_is_clean():
    assert check({"a": 1, "b": 1}, {"p"}).is_clean
    assert check({"a": 1, "b": 1, "c": 1}, {"p"}).is_clean, "a send without an answer may have arrived"


def test_each_fault_is_found():
    assert check({"a": 1}, {"p"}).missing == ["b"]
    assert check({"a": 1, "b": 2}, {"p"}).twice == ["b"]
    assert check({"a": 1, "b": 1, "x": 1}, {"p"}).unexpected == ["x"]
    assert check({"a": 1, "b": 1}, set()).lost_letters == ["p"]
    assert check({"a": 1, "b": 1}, {"p"}, consumed=1).waiting == 3


def test_a_clean_run_has_no_problem():
    assert find_problems(audit_of(1, 2, 3, sent=3), {"sms": check({"a": 1, "b": 1}, {"p"})}) == []


def test_each_problem_is_a_sentence():
    faulty = audit_of(1, 3, 3, sent=4)
    faulty.unstamped[QUEUE] = 1
    assert find_problems(faulty, {"sms": check({"b": 2, "x": 1}, set(), consumed=3)}) == [
        "2 messages of the sign-up page are not at the broker.",
        "1 message of the sign-up page is stored twice.",
        "1 message in the topic is not of the sign-up page.",
        "sms: 1 user got nothing: a.",
        "sms: 1 user got it more than once: b.",
        "sms: 1 user got it without a sign-up: x.",
        "sms: 1 user sent poison that is not among the dead letters: p.",
        "sms: 1 message is not consumed.",
    ]


def test_of_many_users_the_first_are_named():
    assert name_some([f"u{number}" for number in range(7)]) == "u0, u1, u2, u3, u4 and 2 more"
