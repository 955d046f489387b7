"""Ask before something is destroyed: every command that does so takes --yes and --dry-run, and uses `Confirmation`.

                   a terminal          no terminal
neither            says what, asks     refuses with a sentence
--yes              does it             does it
--dry-run          says what           says what

A plan that turns out to lose nothing, such as offsets that are copied to a group that has the same, is done without a question.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from skyrocket.cli.exit_codes import FAILED, WRONG_INPUT
from skyrocket.cli.output import CommandResult

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
CONFIRMATION_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {"yes": (Yes, False), "dry_run": (DryRun, False)}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command is about to do."""

    sentence: str  # such as "Topic orders will be deleted, with 12 messages."
    document: Mapping[str, Any] = field(default_factory=dict)  # for --dry-run --json
    table: str = ""  # the details, before the sentence
    is_harmless: bool = False  # nothing is lost, so nobody is asked

    @property
    def text(self) -> str:
        return f"{self.table}\n\n{self.sentence}" if self.table else self.sentence

    def dry_result(self) -> CommandResult:
        """Return what --dry-run prints."""
        return CommandResult({"dryRun": True, **self.document}, f"{self.text}\nThis was a dry run: nothing has changed.")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the command line says about a plan: do it, ask, or only show it."""

    yes: bool = False
    dry_run: bool = False

    @property
    def needs_plan(self) -> bool:
        """Whether the plan is shown to somebody. Otherwise a command need not find it out."""
        return self.dry_run or not self.yes

    def allows(self, plan: Plan) -> bool:
        """Return whether to do it. False: it is a dry run. Exit when the answer is no, or when nobody can answer."""
        if self.dry_run:
            return False
        if self.yes or plan.is_harmless:
            return True
        if not can_ask():
            typer.echo(f"{plan.sentence} Confirm it with --yes, or look first with --dry-run.", err=True)
            raise typer.Exit(WRONG_INPUT)
        typer.echo(f"{plan.text}\nDo it? [y/N]: ", nl=False, err=True)  # standard output has nothing but the result
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            typer.echo("Nothing has changed.", err=True)
            raise typer.Exit(FAILED)
        return True


def can_ask() -> bool:
    """Whether a person sits at a terminal: the question goes to standard error, and the answer comes from standard input."""
    return sys.stdin.isatty() and sys.stderr.isatty()
