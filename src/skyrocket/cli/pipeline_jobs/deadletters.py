"""`skyrocket pipeline deadletters`: triage, export and resend of messages that groups could not consume."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.confirmation import Confirmation, Plan
from skyrocket.cli.output import format_table
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, parse_ms, pipeline_job
from skyrocket.report.texts import count_of

if TYPE_CHECKING:
    from skyrocket.pipelines.deadletters.selection import LetterSelection

RECORD = "skyrocket-resent.jsonl"


@pipeline_job(has_report=True, uses_spark=False)
def deadletters(
    options: JobOptions,
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUPS", help="Consumer groups. Without any: all.")] = None,
    message_id: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this message or letter. Repeat it for more.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Only letters with this key. Repeat it for more.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only letters with this tag. Repeat it for more.")] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only letters from this original topic. Repeat it for more.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only letters that died at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only letters that died before this time.")] = None,
    cause_property: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="The property that has the reason of a failure. Repeat it for more.")
    ] = None,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the letters to FILE.jsonl or FILE.parquet.")] = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send the letters to their original topics, after a question.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="With --resend: all letters of the groups.")] = False,
    record: Annotated[
        Path, typer.Option(metavar="FILE", help="With --resend: who resent what, so that nothing is sent twice.")
    ] = Path(RECORD),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --resend: only say what would be sent.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --resend: do it without asking.")] = False,
) -> JobResult:
    """Group dead letters by cause, topic and age, with samples; export them; resend a selection."""
    from skyrocket.pipelines.deadletters.selection import LetterSelection  # noqa: PLC0415 — `--help` needs no client

    selection = LetterSelection(
        ids=frozenset(message_id or ()),
        keys=frozenset(key or ()),
        tags=frozenset(tag or ()),
        topics=frozenset(topic or ()),
        since_ms=parse_ms(since, "--since"),
        until_ms=parse_ms(until, "--until"),
    )
    if (yes or dry_run) and not resend:
        refuse(f"{'--yes' if yes else '--dry-run'} is for a resend, and --resend is missing.")
    if resend:
        _check_resend(groups or [], selection, everything=everything, export=export)
        return _resend(options, groups or [], selection, record, yes=yes, dry_run=dry_run)
    if export is not None:
        return _export(options, groups or [], selection, export)
    return _triage(options, groups or [], selection, tuple(cause_property or ()))


def _triage(options: JobOptions, groups: list[str], selection: LetterSelection, causes: tuple[str, ...]) -> JobResult:
    from skyrocket.pipelines.deadletters import presentation  # noqa: PLC0415
    from skyrocket.pipelines.deadletters.job import triage_letters  # noqa: PLC0415
    from skyrocket.report import render_page  # noqa: PLC0415

    found = triage_letters(options.cluster, groups, selection, cause_properties=causes, on_progress=options.on_progress)
    table = format_table(presentation.CAUSE_HEAD, presentation.cause_rows(found.triage), "There are no dead letters.")
    ages = format_table(presentation.AGE_HEAD, presentation.age_rows(found.triage), "") if found.triage.count else ""
    return JobResult(
        presentation.triage_document(found.triage, found.topics),
        "\n\n".join(filter(None, (table, ages))),
        lambda: render_page(presentation.letters_page(found.triage, found.topics, options.cluster_name, found.read_ms)),
    )


def _export(options: JobOptions, groups: list[str], selection: LetterSelection, path: Path) -> JobResult:
    from skyrocket.pipelines.deadletters.job import export_selection  # noqa: PLC0415

    count = export_selection(options.cluster, path, groups, selection)
    return JobResult({"file": str(path), "letters": count}, f"{count:,} letters were written to {path}.")


def _check_resend(groups: list[str], selection: LetterSelection, *, everything: bool, export: Path | None) -> None:
    if export is not None:
        refuse("--export and --resend are two jobs. Export first, then resend.")
    if not groups:
        refuse("--resend needs the group whose dead letters it sends. Name it.")
    if selection.is_everything and not everything:
        refuse("--resend needs a selection: --id, --key, --tag, --topic, --since or --until. For all letters add --all.")


def _resend(
    options: JobOptions, groups: list[str], selection: LetterSelection, record: Path, *, yes: bool, dry_run: bool
) -> JobResult:
    from skyrocket.pipelines.deadletters import presentation  # noqa: PLC0415
    from skyrocket.pipelines.deadletters.job import resend_letters, triage_letters  # noqa: PLC0415

    ends = None
    if Confirmation(yes, dry_run).needs_plan:
        found = triage_letters(options.cluster, groups, selection, on_progress=options.on_progress)
        table = format_table(presentation.CAUSE_HEAD, presentation.cause_rows(found.triage), "No letter is selected.")
        sentence = f"{count_of(found.triage.count, 'letter')} will be resent, without those that the record {record} has."
        plan = Plan(sentence, presentation.triage_document(found.triage, found.topics), table)
        if not found.triage.count or not options.allows(plan, yes=yes, dry_run=dry_run):
            dry = plan.dry_result()
            return JobResult(dry.document, dry.text if found.triage.count else table)
        ends = found.ends  # what dies while the question stands is not sent
    result = resend_letters(options.cluster, groups, selection, record, ends=ends, on_progress=options.on_progress)
    return JobResult(presentation.resend_document(result, str(record)), presentation.resend_text(result, str(record)))
