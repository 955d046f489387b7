"""Turn a function into a command of `skyrocket pipeline`, with the options, the progress bar and the errors that all jobs share.

    @pipeline_job()
    def archive(options: JobOptions, topics: Annotated[list[str], typer.Argument()]) -> JobResult: ...

makes `skyrocket pipeline archive TOPICS…`, which takes the shared options (`--namesrv`, `--master`, `--json`, …) beside its own.
The shared code prints the result, writes the report, and turns an error into one sentence on standard error and an exit code.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from skyrocket.cli.cluster_command import connect_or_refuse, parse_time_ms, refuse
from skyrocket.cli.confirmation import Confirmation, Plan
from skyrocket.cli.connection import CONNECTION_OPTIONS
from skyrocket.cli.exit_codes import FAILED, INTERRUPTED, exit_code_of
from skyrocket.cli.output import to_json
from skyrocket.cli.progress_bar import HiddenProgress, ProgressDisplay, is_terminal, show_progress
from skyrocket.client.errors import ClientError
from skyrocket.pipelines.errors import PipelineError, SessionError, our_sentence, reason_of
from skyrocket.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIFT_SHOWN: Final = 20
LOCAL_MASTER: Final = "local[*]"
_MASTER: Final = re.compile(r"(local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+)$")
_NOT_INSTALLED: Final = "The package {name} is not installed. Install it with: pip install 'skyrocketmq[pipelines]'"


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job: as a JSON document, as text, and as an HTML page where there is something to see."""

    document: Any  # for --json
    text: str
    html: Callable[[], str] | None = None  # for --report; called only if a report is wanted
    is_sound: bool = True  # False: the job has found a problem, and the command fails


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What all jobs share: the cluster, where Spark runs, and how to report."""

    cluster: Mapping[str, str]  # options of Spark's source rocketmq: nameserver, namespace, accessKey, …
    master: str
    as_json: bool
    report: Path | None = None
    config: Mapping[str, str] = field(default_factory=dict)  # of the Spark session
    on_progress: ProgressDisplay = field(default_factory=HiddenProgress)

    @property
    def cluster_name(self) -> str:
        """How a report names the cluster: by its nameservers."""
        return self.cluster.get("nameserver") or self.cluster.get("addressServer", "")

    def session(self, job: str) -> SparkSession:
        """Start Spark, or connect to it. It takes some seconds, so check arguments first."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415 — importing Spark takes longer than a help text

        from skyrocket.spark import session  # noqa: PLC0415

        try:
            return session(f"skyrocket {job}", self.master, self.config)
        except (Py4JError, PySparkException) as error:
            raise SessionError(f"Spark does not start at the master {self.master}: {reason_of(str(error))}") from error

    def allows(self, plan: Plan, *, yes: bool, dry_run: bool) -> bool:
        """Ask a person whether to do what the plan says: see `Confirmation`. False: it is a dry run."""
        with self.on_progress.paused():
            return Confirmation(yes, dry_run).allows(plan)


_SHARED: Final[dict[str, tuple[Any, Any]]] = {
    **CONNECTION_OPTIONS,
    "master": (
        Annotated[
            str,
            typer.Option(metavar="URL", help="Spark's master: local[*], spark://host:7077, k8s://URL, yarn, sc://host:15002."),
        ],
        LOCAL_MASTER,
    ),
    "conf": (
        Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark. Repeat it for more.")],
        None,
    ),
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False),
}
_REPORT: Final[dict[str, tuple[Any, Any]]] = {
    "report": (Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML report with charts.")], None),
}


_UNUSED: Final = "Taken like by every job, and not used: this job starts no Spark."
_WITHOUT_SPARK: Final[dict[str, tuple[Any, Any]]] = {
    "master": (Annotated[str, typer.Option(metavar="URL", help=_UNUSED)], LOCAL_MASTER),
    "conf": (Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=_UNUSED)], None),
}


_OWN_CLUSTER: Final[dict[str, tuple[Any, Any]]] = {
    "namesrv": (
        Annotated[
            str | None,
            typer.Option(
                "-n",
                "--namesrv",
                metavar="HOST:PORT",
                help="Nameservers of a cluster to use, separated by semicolons. Without it, the job starts its own.",
            ),
        ],
        None,
    ),
    "address_server": (
        Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help="An HTTP server that lists those nameservers.")],
        None,
    ),
}


def pipeline_job(
    *, has_report: bool = False, uses_spark: bool = True, brings_cluster: bool = False
) -> Callable[[Callable[..., JobResult]], Callable[..., None]]:
    """Return a decorator that makes a command of a job. `has_report` adds `--report` for a job that returns `html`.

    A job that asks the cluster itself takes `--master` and `--conf` too, so that scripts can pass the same options to all jobs.
    A job that `brings_cluster` gets no cluster unless the command names one: it starts its own, whatever the environment says.
    """

    def make_command(job: Callable[..., JobResult]) -> Callable[..., None]:
        options = {**_SHARED, **({} if uses_spark else _WITHOUT_SPARK), **(_REPORT if has_report else {})}
        if brings_cluster:
            options |= _OWN_CLUSTER
        _, *own = inspect.signature(job, eval_str=True).parameters.values()
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]

        def command(**values: Any) -> None:
            given = {name: values.pop(name) for name in options}
            is_own = brings_cluster and not given["namesrv"] and not given["address_server"]
            parsed = _parse_options(**given)
            _run_job(
                job,
                replace(parsed, cluster={}) if is_own else parsed,
                values,
                "starting Spark" if uses_spark else "asking the cluster",
            )

        command.__name__ = getattr(job, "__name__", "command")
        command.__doc__ = job.__doc__
        parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        command.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
        return command

    return make_command


def _parse_options(
    *, master: str, as_json: bool, conf: list[str] | None, report: Path | None = None, **cluster: Any
) -> JobOptions:
    if not _MASTER.match(master.strip()):
        refuse(f"--master is '{master}'. It must be local[*], spark://HOST:PORT, k8s://URL, yarn or sc://HOST:PORT.")
    config = {}
    for text in conf or ():
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            refuse(f"--conf is key=value, not '{text}'.")
        config[key.strip()] = value
    return JobOptions(cluster_options_of(**cluster), master.strip(), as_json, report, config)


def cluster_options_of(**connection: Any) -> dict[str, str]:
    """Return the options of Spark's source for the cluster that the shared options name."""
    return connect_or_refuse(**connection).spark_options()


def drift_lines(fields: Sequence[object]) -> list[str]:
    """Return a line for each field that left its column, and one for those that are too many."""
    more = [f"{len(fields) - DRIFT_SHOWN} more fields drifted; --json has them."] if len(fields) > DRIFT_SHOWN else []
    return [*map(str, fields[:DRIFT_SHOWN]), *more]


def parse_ms(text: str | None, option: str) -> int | None:
    """Parse a time as TIME_HELP says. None stays None."""
    return None if text is None else parse_time_ms(text, option)


@contextmanager
def stop_on_signal(follow: bool) -> Iterator[threading.Event]:
    """With --follow, let Ctrl-C and SIGTERM end the job after the batch that it is at."""
    stop = threading.Event()
    if not follow:
        yield stop
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_job(job: Callable[..., JobResult], options: JobOptions, values: dict[str, Any], first_step: str) -> None:
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415 — importing Spark takes longer than a help text
        from pyspark.errors import PySparkException  # noqa: PLC0415

        from skyrocket.spark.errors import SparkSourceError  # noqa: PLC0415
    except ModuleNotFoundError as error:  # jobs without Spark read with the modules of its source
        refuse(_NOT_INSTALLED.format(name=error.name))
    try:
        with show_progress(first_step, is_shown=is_terminal()) as on_progress:
            result = job(_with_progress(options, on_progress), **values)
        if options.report is not None and result.html is not None:
            write_page(options.report, result.html())
        typer.echo(to_json(result.document) if options.as_json else result.text)
        if not result.is_sound:
            raise typer.Exit(FAILED)
    except BrokenPipeError:
        raise  # the reader closed the pipe: typer exits without a message
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        refuse(_NOT_INSTALLED.format(name=error.name))
    except (PipelineError, ClientError, ProtocolError, SparkSourceError) as error:
        _fail(str(error), exit_code_of(error), error)
    except PySparkException as error:
        _fail(our_sentence(str(error)), FAILED, error)
    except Py4JError as error:  # for example a task that was lost four times
        _fail(reason_of(str(error)), FAILED, error)
    except OSError as error:
        _fail(f"{error.filename or 'A file'}: {error.strerror or error}.", FAILED, error)


def write_page(path: Path, page: str) -> None:
    """Write a report. Whoever reads the file sees the old page or the new one, also while a job writes it again and again."""
    if path.exists() and not path.is_file():  # such as /dev/stdout
        path.write_text(page, encoding="utf-8")
        return
    place = path.resolve() if path.is_symlink() else path  # a link stays one
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        hidden.write_text(page, encoding="utf-8")
        hidden.replace(place)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        hidden.unlink(missing_ok=True)


def _fail(sentence: str, code: int, error: Exception) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(code) from error


def _with_progress(options: JobOptions, on_progress: ProgressDisplay) -> JobOptions:
    return replace(options, on_progress=on_progress)
