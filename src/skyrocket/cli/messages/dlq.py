"""`skyrocket dlq …`: list, show, resend and export dead letters, the messages that a group could not consume.

No Spark is needed. `skyrocket pipeline deadletters` groups letters by cause and writes reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from skyrocket.cli.cluster_command import TIME_HELP, CommandOptions, cluster_command, parse_time_ms, refuse
from skyrocket.cli.confirmation import Plan
from skyrocket.cli.exit_codes import FAILED
from skyrocket.cli.names import GroupName
from skyrocket.cli.output import CommandResult, body_text, format_table, format_time
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.client import Admin, NoRouteError, Producer
from skyrocket.client.options import resolve_options
from skyrocket.client.queues import Queue
from skyrocket.pipelines.current_user import current_user
from skyrocket.pipelines.deadletters.export import check_export, export_letters, letter_document
from skyrocket.pipelines.deadletters.letters import DeadLetter
from skyrocket.pipelines.deadletters.live import (
    PRODUCER_GROUP,
    find_letter_ends,
    find_letter_topics,
    resend_stream,
    stream_letters,
)
from skyrocket.pipelines.deadletters.presentation import resend_document, resend_text
from skyrocket.pipelines.deadletters.resend_record import LetterCluster
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.progress import JobProgress
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX

app = typer.Typer(no_args_is_help=True, add_completion=False)

RECORD: Final = "skyrocket-resent.jsonl"
LETTERS_MAX: Final = 100_000  # in memory, for one export
LETTER_BYTES_MAX: Final = 256 * 1024 * 1024  # of their bodies
_LOOK_LETTERS: Final = 1_000
_SEARCHED_TOPICS: Final = 16  # whose state is fetched at the same time

SELECTION_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "message_id": (
        Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this message or letter. Repeat it for more.")],
        None,
    ),
    "key": (Annotated[list[str] | None, typer.Option(help="Only letters with this key. Repeat it for more.")], None),
    "tag": (Annotated[list[str] | None, typer.Option(help="Only letters with this tag. Repeat it for more.")], None),
    "topic": (Annotated[list[str] | None, typer.Option(help="Only letters from this original topic. Repeat it for more.")], None),
    "since": (
        Annotated[str | None, typer.Option(metavar="TIME", help=f"Only letters that died at this time or later: {TIME_HELP}.")],
        None,
    ),
    "until": (Annotated[str | None, typer.Option(metavar="TIME", help="Only letters that died before this time.")], None),
}


def _selection(
    message_id: list[str] | None,
    key: list[str] | None,
    tag: list[str] | None,
    topic: list[str] | None,
    since: str | None,
    until: str | None,
) -> LetterSelection:
    return LetterSelection(
        ids=frozenset(message_id or ()),
        keys=frozenset(key or ()),
        tags=frozenset(tag or ()),
        topics=frozenset(topic or ()),
        since_ms=None if since is None else parse_time_ms(since, "--since"),
        until_ms=None if until is None else parse_time_ms(until, "--until"),
    )


@cluster_command(app, "list")
async def list_all(options: CommandOptions) -> CommandResult:
    """List the groups that have dead letters, and how many."""
    async with options.admin() as admin:
        topics = await find_letter_topics(admin)
        found: list[dict[str, Any]] = []
        for at in range(0, len(topics), _SEARCHED_TOPICS):
            part = await asyncio.gather(*(_describe(admin, topic) for topic in topics[at : at + _SEARCHED_TOPICS]))
            found += [one for one in part if one is not None]
    rows = [(one["group"], one["letters"], format_time(one["lastMs"])) for one in found]
    return CommandResult(found, format_table(("GROUP", "LETTERS", "LAST ONE"), rows, "There are no dead letters."))


async def _describe(admin: Admin, topic: str) -> dict[str, Any] | None:
    try:
        status = await admin.topics.status(topic)
    except NoRouteError:  # deleted meanwhile
        return None
    if not status.messages:
        return None
    last_ms = max(queue.updated_ms for queue in status.queues)
    return {"group": topic.removeprefix(DEAD_LETTER_PREFIX), "topic": topic, "letters": status.messages, "lastMs": last_ms}


@cluster_command(app, more=SELECTION_OPTIONS)
async def show(
    options: CommandOptions,
    group: GroupName,
    count: Annotated[int, typer.Option("-c", "--count", min=1, max=10_000, help="At most this many letters.")] = 100,
    **chosen: Any,
) -> CommandResult:
    """Show dead letters of a group: where they come from, why they died, and their bodies."""
    selection = _selection(**chosen)
    async with options.admin() as admin:
        found, has_more = await _collect(admin, options, group, selection, count)
    lines = [_line(letter) for letter in found]
    if has_more:
        lines.append(f"There are more than {len(found)}. Choose some, or ask for more with --count.")
    return CommandResult(
        [letter_document(letter) for letter in found], "\n".join(lines) or f"Group {group} has no such dead letters."
    )


async def _collect(
    admin: Admin, options: CommandOptions, group: str, selection: LetterSelection, count: int
) -> tuple[list[DeadLetter], bool]:
    """Read at most `count` letters and LETTER_BYTES_MAX of bodies, and find out whether there are more."""
    found: list[DeadLetter] = []
    body_bytes = 0
    topics = await find_letter_topics(admin, [group])
    with show_progress("reading", is_shown=is_terminal()) as on_progress:
        async for letter in stream_letters(admin, topics, selection, options.namespace):
            body_bytes += len(letter.body)
            if len(found) == count or body_bytes > LETTER_BYTES_MAX:
                return found, True
            found.append(letter)
            if len(found) % _LOOK_LETTERS == 0:
                on_progress(JobProgress("reading", len(found), unit="letters"))
    return found, False


def _line(letter: DeadLetter) -> str:
    parts = [format_time(letter.died_ms), letter.place, f"from {letter.origin_topic or '(unknown)'}", letter.message_id]
    if letter.tag:
        parts.append(f"tag={letter.tag}")
    if letter.keys:
        parts.append(f"keys={','.join(letter.keys)}")
    parts.append(f"retries={letter.retries}")
    if letter.cause():
        parts.append(f"cause={body_text(letter.cause().encode())}")
    return "  ".join([*parts, body_text(letter.body)])


@cluster_command(app, more=SELECTION_OPTIONS)
async def export(
    options: CommandOptions,
    group: GroupName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="FILE.jsonl for JSON lines, FILE.parquet for Parquet.")],
    **chosen: Any,
) -> CommandResult:
    """Write dead letters of a group to a file. The file appears when it is whole."""
    check_export(file)
    selection = _selection(**chosen)
    async with options.admin() as admin:
        found, has_more = await _collect(admin, options, group, selection, LETTERS_MAX)
    if has_more:
        refuse(
            f"More than {LETTERS_MAX:,} letters or {LETTER_BYTES_MAX:,} bytes. Narrow it with --since, "
            f"or use: skyrocket pipeline deadletters"
        )
    try:
        count = export_letters(found, file)
    except ModuleNotFoundError as error:
        refuse(f"The package {error.name} is not installed. Export to FILE.jsonl, or install 'skyrocketmq[pipelines]'.")
    return CommandResult({"file": str(file), "letters": count}, f"{count:,} letters were written to {file}.")


@cluster_command(app, destroys=True, more=SELECTION_OPTIONS)
async def resend(
    options: CommandOptions,
    group: GroupName,
    everything: Annotated[bool, typer.Option("--all", help="All letters of the group.")] = False,
    record: Annotated[Path, typer.Option(metavar="FILE", help="Who resent what, so that nothing is sent twice.")] = Path(RECORD),
    **chosen: Any,
) -> CommandResult:
    """Send dead letters to their original topics again, each once. All groups of these topics get them."""
    selection = _selection(**chosen)
    if selection.is_everything and not everything:
        refuse("A resend needs a selection: --id, --key, --tag, --topic, --since or --until. For all letters add --all.")
    async with options.admin() as admin:
        topics = await find_letter_topics(admin, [group])
        ends = await find_letter_ends(admin, topics)  # what dies while the question stands is not sent
        if options.confirmation.needs_plan:
            plan = await _plan_resend(admin, options, group, topics, selection, record, ends)
            if not options.confirmation.allows(plan):
                return plan.dry_result()
        shared = resolve_options(None, options.nameservers, options.client_options)
        producer, cluster = Producer(options=shared, group=PRODUCER_GROUP), LetterCluster.of(shared)
        with show_progress("resending", is_shown=is_terminal()) as on_progress:
            async with producer:
                letters = stream_letters(admin, topics, selection, options.namespace, ends)
                result = await resend_stream(admin, producer, letters, record, current_user(), on_progress, cluster=cluster)
    code = FAILED if result.failed or result.unknown else 0
    return CommandResult(resend_document(result, str(record)), resend_text(result, str(record)), code)


async def _plan_resend(
    admin: Admin,
    options: CommandOptions,
    group: str,
    topics: list[str],
    selection: LetterSelection,
    record: Path,
    ends: Mapping[Queue, int],
) -> Plan:
    origins: dict[str, int] = {}
    async for letter in stream_letters(admin, topics, selection, options.namespace, ends):
        origins[letter.origin_topic] = origins.get(letter.origin_topic, 0) + 1
    rows = [(topic or "(unknown)", count) for topic, count in sorted(origins.items())]
    table = format_table(("ORIGINAL TOPIC", "LETTERS"), rows, "No letter is chosen.")
    total = sum(origins.values())
    sentence = f"{total:,} letters of group {group} will be sent to their topics again, without those that {record} has."
    return Plan(sentence, {"group": group, "letters": total, "byTopic": origins, "record": str(record)}, table)
