"""The load of the sign-up demo: what a seed draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.signup.sign_ups import (
    DemoSettings,
    SignUp,
    UnreadableSignUpError,
    draw_sign_ups,
    encode_body,
    parse_body,
    split_users,
)

SETTINGS = DemoSettings(seconds=100, rate=50, seed=7, minute_s=10)
BEGAN_MS = 1_800_000_000_000


def test_the_same_seed_draws_the_same_sign_ups_and_another_seed_others():
    drawn = draw_sign_ups(SETTINGS, 100, "u")
    assert draw_sign_ups(SETTINGS, 100, "u") == drawn
    assert draw_sign_ups(replace(SETTINGS, seed=8), 100, "u") != drawn
    assert {one.user for one in draw_sign_ups(SETTINGS, 100, "i")} & {one.user for one in drawn} == set()


def test_a_load_has_its_rate_and_about_the_shares_of_each_fault():
    drawn = draw_sign_ups(SETTINGS, 100, "u")
    firsts = [one for one in drawn if not one.is_duplicate]
    assert len(firsts) == len({one.user for one in firsts}) == 5_000
    assert 150 < len(drawn) - len(firsts) < 350
    assert 20 < sum(one.is_poison for one in firsts) < 90
    assert 130 < sum(one.late_s > 0 for one in firsts) < 330
    assert 1_800 < sum(one.channel == "app" for one in firsts) < 2_200


def test_sign_ups_come_in_order_within_the_time_and_none_happened_before_the_demo():
    drawn = draw_sign_ups(SETTINGS, 100, "u")
    assert [one.at_s for one in drawn] == sorted(one.at_s for one in drawn)
    assert all(0 <= one.at_s - one.late_s <= one.at_s <= 100 for one in drawn)


def test_a_duplicate_comes_after_the_first_and_tells_of_the_same_moment():
    drawn = draw_sign_ups(SETTINGS, 100, "u")
    first = {one.user: one for one in drawn if not one.is_duplicate}
    copies = [one for one in drawn if one.is_duplicate]
    assert copies
    for copy in copies:
        original = first[copy.user]
        assert not original.is_poison
        assert copy.at_s >= original.at_s
        assert copy.at_s - copy.late_s == pytest.approx(original.at_s - original.late_s)
        assert parse_body(encode_body(copy, BEGAN_MS, 10)).at == parse_body(encode_body(original, BEGAN_MS, 10)).at


def test_a_body_tells_when_it_happened_and_whether_it_is_late():
    on_time = parse_body(encode_body(SignUp("u-1", "web", 42.5), BEGAN_MS, 10))
    assert (on_time.user, on_time.at, on_time.late, on_time.step) == ("u-1", BEGAN_MS + 42_500, False, "")
    late = parse_body(encode_body(SignUp("u-2", "app", 42.5, late_s=12.5), BEGAN_MS, 10))
    assert (late.at, late.late) == (BEGAN_MS + 30_000, True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"user": 1, "at": 2}', b'{"at": 2}', b"\xff"])
def test_other_bodies_are_unreadable(body: bytes):
    with pytest.raises(UnreadableSignUpError, match=r"^The body is not a sign-up: "):
        parse_body(body)


def test_a_poison_body_is_unreadable_whatever_the_user():
    for number in range(50):
        with pytest.raises(UnreadableSignUpError):
            parse_body(encode_body(SignUp(f"u-{number}", "web", number, is_poison=True), BEGAN_MS, 10))


def test_users_are_those_who_can_be_registered_and_those_who_cannot():
    drawn = [SignUp("a", "web", 1), SignUp("a", "web", 2, is_duplicate=True), SignUp("p", "app", 3, is_poison=True)]
    assert split_users(drawn) == ({"a": "web"}, {"p": "app"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"seconds": 3}, "--seconds is 3. It must be 4 to 3600."),
        ({"rate": 0}, "--rate is 0. It must be 1 to 1000."),
        ({"minute_s": 0.5}, "--minute is 0.5. It must be 1 to 3600."),
        ({"seconds": 3600, "rate": 100}, "--seconds 3600 at --rate 100 is more than 200,000 sign-ups. Choose less of one."),
        ({"seconds": float("nan")}, "--seconds is nan. It must be 4 to 3600."),
    ],
)
def test_settings_that_make_no_sense_are_one_sentence(given: dict[str, float], sentence: str):
    with pytest.raises(ArgumentError) as error:
        replace(DemoSettings(), **given).check()
    assert str(error.value) == sentence
