"""`skyrocket store repair`: make queues and index from the log again, cut a torn tail, set damage aside. No broker is needed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from skyrocket.cli.confirmation import Confirmation, DryRun, Plan, Yes
from skyrocket.cli.exit_codes import FAILED, WRONG_INPUT
from skyrocket.cli.output import to_json
from skyrocket.cli.progress_bar import is_terminal, show_progress
from skyrocket.pipelines.progress import JobProgress
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.file import read_required_texts
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreError
from skyrocket.store.offline.verify import verify as findings_of
from skyrocket.store.recovery.offline_repair import OfflineRepair, RepairableLog, RepairResult

FINDINGS_SHOWN: Final = 20


def repair(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The store: the directory that contains 'commitlog' or 'dledger-n0'.")
    ],
    commit_log: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The directory of the log, if the broker has one in storePathCommitLog.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="The broker's broker.conf, for sizes that no file shows any more."),
    ] = None,
    default_sizes: Annotated[
        bool, typer.Option("--default-sizes", help="The broker's files have the default sizes, if no file shows it any more.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Make queues and index again although nothing is wrong.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Repair a store directory that no broker has open: make queues and index from the log again.

    A torn tail of the log is cut off, and damage in the middle of it is set aside, as when a broker starts after a crash.
    What is replaced or cut is kept in DIR/repaired-TIME. The exit code is 1 when findings are left.

    A node of a DLedger group gets damaged entries, and confirmed ones that are lost, from its group when it starts.
    """
    try:
        work = OfflineRepair(directory, commit_log=commit_log, config=_read_config(config, default_sizes=default_sizes))
        work.check_unused()
        work.find_config()
        with show_progress("reading the log", is_shown=is_terminal()) as on_progress:
            state = work.look(lambda count: on_progress(JobProgress("reading the log", count)))
            findings = _find(directory, commit_log)
        if state.is_closed and not (findings or state.damaged or state.tail_bytes or force):
            typer.echo(to_json(_document(state, findings)) if as_json else f"Nothing in {directory} needs a repair.")
            return
        plan = _plan(directory, state, findings)
        if not Confirmation(yes, dry_run).allows(plan):
            dry = plan.dry_result()
            typer.echo(to_json(dry.document) if as_json else dry.text)
            return
        with show_progress("writing queues and index", is_shown=is_terminal()):
            done = work.run(f"{datetime.fromtimestamp(time.time(), UTC):%Y%m%dT%H%M%SZ}")
            left = _find(directory, commit_log)
    except (StoreError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(WRONG_INPUT) from error
    document = {
        **_document(state, findings),
        "did": _tell(done),
        "keptIn": done.kept_in,
        "kept": done.kept,
        "left": left,
    }
    typer.echo(to_json(document) if as_json else _report(done, left))
    if left:
        raise typer.Exit(FAILED)


def _read_config(path: Path | None, *, default_sizes: bool) -> StoreConfig | None:
    if path is None:
        return StoreConfig() if default_sizes else None
    from skyrocket.broker.settings import BrokerSettings  # noqa: PLC0415 — a repair without broker.conf needs no broker

    settings = BrokerSettings()
    return settings.with_texts(settings.separate_foreign(read_required_texts(path))[0]).store_config()


def _find(directory: Path, commit_log: Path | None) -> list[str]:
    """Return the first findings of `skyrocket store verify`."""
    return [str(finding) for finding in islice(findings_of(directory, commit_log=commit_log), FINDINGS_SHOWN)]


def _plan(directory: Path, state: RepairableLog, findings: list[str]) -> Plan:
    steps = [f"Queues and index of {directory} will be made again from the {state.messages:,} messages of the log."]
    if not state.is_closed:
        steps.insert(0, "The store was not closed.")
    if state.confirmed_index is not None:
        steps.append(f"Entries up to {state.confirmed_index} are known to be confirmed; later ones are in no queue.")
    if state.damaged:
        size = sum(each.size for each in state.damaged)
        steps.append(f"{len(state.damaged)} damaged ranges of the log, {size:,} bytes, will be set aside in 'damaged'.")
    if state.tail_bytes:
        steps.append(f"{state.tail_bytes:,} bytes behind the last whole message, at {state.end}, will be cut off, and kept.")
    return Plan(" ".join(steps), _document(state, findings), "\n".join(findings))


def _document(state: RepairableLog, findings: list[str]) -> dict[str, Any]:
    node = {} if state.confirmed_index is None else {"confirmedIndex": state.confirmed_index}
    return {
        "messages": state.messages,
        "damaged": [{"offset": each.offset, "bytes": each.size} for each in state.damaged],
        "logEnd": state.end,
        "tailBytes": state.tail_bytes,
        "isClosed": state.is_closed,
        **node,
        "findings": findings,
    }


def _report(done: RepairResult, left: list[str]) -> str:
    kept = f"Kept in {done.kept_in}: {', '.join(done.kept) or 'nothing'}. Remove it when all is well."
    outcome = "\n".join(["These findings are left:", *left]) if left else "Everything fits together now."
    return "\n".join([*_tell(done), kept, outcome])


def _tell(done: RepairResult) -> list[str]:
    """Say what the repair did, and what only the group of a DLedger node can do."""
    sentences = done.recovery.sentences()
    if done.damaged_entries:
        first, last, count = done.damaged_entries[0], done.damaged_entries[-1], len(done.damaged_entries)
        which = f"Entry {first} holds" if count == 1 else f"{count} entries between {first} and {last} hold"
        sentences.append(f"{which} no message any more. Our node gets such entries from its group when it starts.")
    elif done.damaged_entries is not None and done.recovery.set_aside:
        sentences.append("All entries are whole again: headers and index of the ledger told what was damaged.")
    if done.damaged_entries or done.recovery.lost_after is not None or done.recovery.unfilled:
        sentences.append("Do not start Apache's node here: it would not ask for them. On an empty directory it gets everything.")
    return sentences
