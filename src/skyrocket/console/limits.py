"""The bounds of the console, in one place."""

from __future__ import annotations

from typing import Final

# --- connections
CONNECTIONS_MAX: Final = 128
CONNECTIONS_PER_ADDRESS_MAX: Final = 64  # so that one address leaves room for the others
REQUEST_S_MAX: Final = 10.0  # until a connection has brought a whole request, its first one or the next
FORM_S_MAX: Final = 30.0  # until the form of a request is here

# --- requests
FORM_BYTES_MAX: Final = 5 * 1024 * 1024  # a test message has up to 4 MiB
FORM_FIELDS_MAX: Final = 1_000
PATH_CHARACTERS_MAX: Final = 4_096
PAGES_AT_ONCE: Final = 16  # pages that ask a cluster at the same time; others of that cluster wait
PAGE_S_MAX: Final = 15.0  # how long a part of a page waits for the cluster
QUESTIONS_AT_ONCE: Final = 8  # requests of one page to the cluster at the same time

# --- what pages show
ROWS_PER_PAGE: Final = 25
MESSAGES_PER_PAGE: Final = 32
SEARCHED_MESSAGES_MAX: Final = 2_000  # looked at for one page of a search; the next page goes on
MESSAGE_BYTES_PER_PAGE: Final = 8 * 1024 * 1024  # of bodies; the message that exceeds it is the last one of its page
QUEUE_ROWS_MAX: Final = 256
MEMBERS_ASKED_MAX: Final = 32  # members that are asked for their subscriptions and queues
BODY_BYTES_SHOWN: Final = 64 * 1024
BODY_PREVIEW_CHARACTERS: Final = 160
EXPORTED_LETTERS_MAX: Final = 10_000
EXPORTED_BYTES_MAX: Final = 64 * 1024 * 1024
RESENT_LETTERS_MAX: Final = 100  # with one press of the button

# --- history
SAMPLE_EVERY_S: Final = 5.0
SAMPLES_MAX: Final = 720  # an hour
BROKERS_SAMPLED_MAX: Final = 64

STAGE_WINDOW_SAMPLES: Final = 12  # a minute: over which percentiles of stages are taken

# --- clusters
CLUSTERS_MAX: Final = 16

# --- the doctor
EXAMINATION_KEPT_MS: Final = 30_000  # a younger result is shown again; an older one is taken anew when somebody looks
EXAMINATIONS_KEPT_MAX: Final = 32
EXAMINATION_S_MAX: Final = 120.0
URGENT_SHOWN: Final = 5  # findings of the last examination on the overview
URGENT_MS: Final = 600_000  # an older examination is not shown there

# --- the sweep over all groups
SWEEP_EVERY_MS: Final = 30_000
SWEPT_GROUPS_MAX: Final = 2_000
LAGS_SHOWN: Final = 10

# --- visitors
SESSION_MS: Final = 12 * 3_600_000
LOGIN_FAILURES_MAX: Final = 5  # of one address, until it has to wait
LOGIN_PAUSE_MS: Final = 60_000
THROTTLED_ADDRESSES_MAX: Final = 10_000
ENDED_SESSIONS_MAX: Final = 10_000  # log-outs that are remembered
USERS_MAX: Final = 1_000
