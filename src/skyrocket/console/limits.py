"""The bounds of the console, in one place."""

from __future__ import annotations

from typing import Final

# --- requests
FORM_BYTES_MAX: Final = 5 * 1024 * 1024  # a test message has up to 4 MiB
FORM_FIELDS_MAX: Final = 1_000
PATH_CHARACTERS_MAX: Final = 4_096
PAGES_AT_ONCE: Final = 16  # pages that ask the cluster at the same time; others wait
PAGE_S_MAX: Final = 15.0  # how long a part of a page waits for the cluster
QUESTIONS_AT_ONCE: Final = 8  # requests of one page to the cluster at the same time

# --- what pages show
ROWS_PER_PAGE: Final = 25
MESSAGES_PER_PAGE: Final = 32
SEARCHED_MESSAGES_MAX: Final = 2_000  # looked at for one page of a search; the next page goes on
QUEUE_ROWS_MAX: Final = 256
MEMBERS_ASKED_MAX: Final = 32  # members that are asked for their subscriptions and queues
BODY_BYTES_SHOWN: Final = 64 * 1024
BODY_PREVIEW_CHARACTERS: Final = 160
EXPORTED_LETTERS_MAX: Final = 10_000
RESENT_LETTERS_MAX: Final = 100  # with one press of the button

# --- history
SAMPLE_EVERY_S: Final = 5.0
SAMPLES_MAX: Final = 720  # an hour
BROKERS_SAMPLED_MAX: Final = 64

# --- visitors
SESSION_MS: Final = 12 * 3_600_000
LOGIN_FAILURES_MAX: Final = 5  # of one address, until it has to wait
LOGIN_PAUSE_MS: Final = 60_000
THROTTLED_ADDRESSES_MAX: Final = 10_000
USERS_MAX: Final = 1_000
