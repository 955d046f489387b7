"""Dead letters: messages that a group gave up. Find them, look at them, have them delivered again, save them to a file."""

from __future__ import annotations

from typing import Final

from skyrocket.client import ClientError, Queue, Received
from skyrocket.console.errors import InputError
from skyrocket.console.letter_files import FORMATS
from skyrocket.console.limits import EXPORTED_LETTERS_MAX, RESENT_LETTERS_MAX
from skyrocket.console.message_search import SearchFilter, SearchPosition, search_messages
from skyrocket.console.paging import cut_page, search_names
from skyrocket.console.visit import Answer, Download, Page, Redirect, Visit, address_of, attempt, attempt_each
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, dead_letter_topic

BOX: Final = "letter"


async def show_dead_letters(visit: Visit) -> Answer:
    """List the groups that have a dead-letter topic, with the number of letters in it."""
    words = visit.query.text("q")
    names = await attempt(visit.admin.topics.names(internal=True))
    groups = [name.removeprefix(DEAD_LETTER_PREFIX) for name in names.value or [] if name.startswith(DEAD_LETTER_PREFIX)]
    page = cut_page(search_names(groups, words), visit.query.number("page", "The page", 1, 10**6) or 1)
    statuses = await attempt_each(page.rows, lambda group: visit.admin.topics.status(dead_letter_topic(group)))
    rows = list(zip(page.rows, statuses, strict=True))
    return Page("dead_letters.html", "Dead letters", {"names": names, "page": page, "rows": rows, "words": words})


async def show_letters(visit: Visit) -> Answer:
    group, query = visit.path["group"], visit.query
    topic = dead_letter_topic(group)
    known = await attempt(visit.admin.topics.names(internal=True))
    has_letters = known.value is None or topic in known.value
    since_ms, until_ms = query.moment_ms("since", "The beginning"), query.moment_ms("until", "The end")
    start = SearchPosition(since_ms or 0, query.number("skip", "The number of letters to skip", 0, 10**9) or 0)
    found = None
    if has_letters:
        found = await attempt(search_messages(visit.admin, topic, start, until_ms, _filter(visit).allows))
    values = {
        "group": group,
        "found": found,
        "box": BOX,
        "formats": list(FORMATS),
        "tag": query.text("tag"),
        "text": query.text("text"),
        "since": query.text("since"),
        "until": query.text("until"),
    }
    return Page("letters.html", f"Dead letters of {group}", values)


def _filter(visit: Visit) -> SearchFilter:
    return SearchFilter(visit.query.text("tag"), visit.query.text("text"))


async def resend_letters(visit: Visit) -> Answer:
    """Have the chosen letters delivered to their group again, and say what became of each."""
    group = visit.path["group"]
    places = visit.form.all(BOX)
    if not places:
        raise InputError("Choose the letters to resend. Nothing was sent.")
    if len(places) > RESENT_LETTERS_MAX:
        raise InputError(
            f"At most {RESENT_LETTERS_MAX} letters are resent at once. `skyrocket pipeline deadletters` resends more."
        )
    sent, failures = 0, []
    for place in places:
        try:
            letter = await visit.admin.messages.by_offset(_parse_place(group, place), _parse_offset(place))
            await visit.admin.messages.retry_dead_letter(group, letter)
            sent += 1
        except ClientError as error:
            failures.append(f"{place}: {error}")
    notice = f"{sent} of {len(places)} letters will be delivered to {group} again within seconds."
    if failures:
        notice += f" Not resent: {'; '.join(failures)}"
    return Redirect(
        address_of("dead-letters", group), notice, f"{sent} dead letters of group {group} resent: {', '.join(places)}"
    )


def _parse_place(group: str, place: str) -> Queue:
    broker, _, rest = place.rpartition(":")[0].rpartition(":")
    if not broker or not rest.isdigit():
        raise InputError(f"'{place[:80]}' is no place of a letter.")
    return Queue(dead_letter_topic(group), broker, int(rest))


def _parse_offset(place: str) -> int:
    text = place.rpartition(":")[2]
    if not text.isdigit():
        raise InputError(f"'{place[:80]}' is no place of a letter.")
    return int(text)


async def export_letters(visit: Visit) -> Answer:
    """Return the letters that the filter allows as a file, oldest first. Its name tells when there were too many."""
    group, query = visit.path["group"], visit.query
    name = query.choice("format", "The format", list(FORMATS), "jsonl")
    wanted, letters = _filter(visit), list[Received]()
    until_ms = query.moment_ms("until", "The end")
    position: SearchPosition | None = SearchPosition(query.moment_ms("since", "The beginning") or 0)
    while position is not None and len(letters) < EXPORTED_LETTERS_MAX:
        found = await search_messages(visit.admin, dead_letter_topic(group), position, until_ms, wanted.allows)
        letters += found.messages
        position = found.next
    part = "" if position is None else f"-first-{len(letters)}"
    return Download(f"dead-letters-{group}{part}.{name}", FORMATS[name].encode(letters), FORMATS[name].content_type)
