"""`skyrocket pipeline`: its list of jobs, and wrong arguments, which are one sentence before Spark starts."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from py4j.protocol import Py4JError
from typer.testing import CliRunner, Result

from skyrocket.cli.main import app
from skyrocket.cli.pipeline_jobs.job_command import JobOptions, JobResult, cluster_options_of, pipeline_job, write_page
from skyrocket.cli.pipeline_jobs.jobs import JOBS
from skyrocket.cli.progress_bar import show_progress
from skyrocket.pipelines.errors import ArchiveError, ArgumentError
from skyrocket.pipelines.progress import JobProgress
from tests.support.startup import imported_by

V = ("--version", "b")
HELP = """
from skyrocket.cli.main import app
try:
    app(["pipeline", "--help"], prog_name="skyrocket")
except SystemExit:
    pass
"""


EXTRA = ("pyspark", "py4j", "pyarrow", "numpy", "deltalake", "pyiceberg")
ACCEPTED = {
    "archive": ["orders", "--to", "/tmp/x"],
    "replay": ["--topic", "orders", "--to", "again"],
    "table": ["orders", "--to", "delta:/tmp/x", "--key", "a", *V],
    "audit": ["orders"],
    "backlog": [],
    "drain": ["billing", "orders", "--to", "/tmp/x", "--subscribed", "paid"],
    "deadletters": [],
    "verify": ["/tmp"],
    "signup-demo": [],
}
WITHOUT_THE_EXTRA = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, Hidden())
from typer.testing import CliRunner
from skyrocket.cli.main import app
found = {}
for job, arguments in jobs.items():
    done = CliRunner().invoke(app, ["pipeline", job, *arguments, "-n", "127.0.0.1:1"])
    found[job] = [done.exit_code, done.stderr + (repr(done.exception) if done.exit_code == 1 else "")]
print(json.dumps(found))
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], prog_name="skyrocket")


def test_the_list_of_jobs_imports_no_job_and_no_spark():
    modules = imported_by(HELP)
    assert modules & {"pyspark", "pyarrow", "rich", "skyrocket.client", "skyrocket.pipelines"} == set()


@pytest.mark.parametrize("name", JOBS)
def test_help_of_a_job_begins_with_its_line_in_the_list(name: str):
    _, text, *_ = run(name, "--help").output.split("\n\n")
    assert " ".join(text.split()).startswith(JOBS[name].help)


@pytest.mark.parametrize("name", JOBS)
def test_every_job_takes_the_options_that_all_share(name: str):
    text = run(name, "--help").output
    assert [option for option in ("--namesrv", "--master", "--conf", "--json") if option not in text] == []


def test_a_package_that_is_missing_is_one_sentence():
    """The packages of the extra [pipelines] are hidden, for each job with arguments that it accepts."""
    script = f"import json; hidden, jobs = {EXTRA!r}, {ACCEPTED!r}{WITHOUT_THE_EXTRA}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    assert ACCEPTED.keys() == JOBS.keys()
    for job, (code, shown) in found.items():
        assert code == 2, (job, shown)
        assert re.fullmatch(
            r"The package \w+ is not installed\. Install it with: pip install 'skyrocketmq\[pipelines\]'\n", shown
        ), job


def test_a_page_is_replaced_as_a_whole_also_behind_a_link(tmp_path: Path):
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(page)
    write_page(link, "one")
    with page.open() as reader:
        write_page(link, "two")
        assert reader.read() == "one", "whoever reads it sees one page"
    assert (page.read_text(), link.is_symlink()) == ("two", True)
    write_page(Path("/dev/null"), "three")
    with pytest.raises(OSError, match=r"No such file or directory: '.*/no/page.html'"):
        write_page(tmp_path / "no" / "page.html", "four")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "page.html"]


@pytest.mark.parametrize("name", JOBS)
def test_the_page_of_jobs_has_each_of_them(name: str):
    page = Path(__file__).resolve().parents[3] / "docs" / "pipelines.md"
    assert f"\n## {name}\n" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["archive", "orders", "--to", "s3://bucket/x"], "'s3://bucket/x' is a URL"),
        (
            ["archive", "orders", "--to", "/tmp/x", "--format", "csv"],
            "The format is 'csv'. It must be one of parquet, ",
        ),
        (["archive", "orders", "--to", "iceberg:/tmp/x", "--format", "delta"], "--to says iceberg, and --format delta."),
        (["archive", "orders", "--to", "/tmp/x", "--compression", "rar"], "The compression is 'rar'. It must be one of lz4"),
        (["archive", "orders", "--to", "/tmp/x", "--batch-messages", "0"], "A batch has 0 messages. It must have at least 1."),
        (["archive", "orders", "--to", "/tmp/x", "--compact-every", "60"], "--compact-every merges files while the job follows"),
        (["archive", "orders", "--to", "/tmp/x", "--conf", "spark"], "--conf is key=value, not 'spark'."),
        (["archive", "orders", "--to", "/tmp/x", "--master", "foo"], "--master is 'foo'. It must be local[*], spark://HOST:PORT"),
        (["archive", "orders", "--to", "/tmp/x", "--access-key", "a"], "--secret-key is missing."),
        (
            ["table", "t", "--to", "mysql:x", "--key", "a", *V],
            "The target is 'mysql'. It must be one of postgresql:…",
        ),
        (
            ["table", "t", "--to", "delta:", "--key", "a", *V],
            "The target is 'delta'. It must be one of postgresql:…",
        ),
        (["table", "t", "--to", "delta:s3://b/x", "--key", "a", *V], "'s3://b/x' is a URL."),
        (["table", "t", "--to", "delta:/x", "--key", "", *V], "--key is empty. Use FIELD"),
        (
            ["table", "t", "--to", "delta:/x", "--key", "a", *V, "--mode", "x"],
            "The mode is 'x'. It must be last-writer",
        ),
        (["table", "t", "--to", "delta:/x", "--key", "a", *V, "--batch-messages", "0"], "A batch has 0 messages."),
        (
            ["table", "t", "--to", "delta:/x", "--key", "a", *V, "--waiting-max", "-1"],
            "At most -1 changes may wait.",
        ),
        (["table", "t", "--to", "delta:/x", "--key", "a", *V, "--schema", "/absent"], "/absent: No such file"),
        (["replay", "--to", "orders"], "Give one source: --archive, --store or --topic."),
        (["replay", "--to", "x", "--topic", "a", "--store", "/tmp"], "Give one source: --archive, --store or --topic."),
        (["replay", "--topic", "a", "--to", "x", "--to-tls"], "Options about the target's cluster need --to-namesrv."),
        (["replay", "--topic", "orders"], "Name the topic to send to with --to."),
        (["replay", "--topic", "orders", "--to", "x", "--rate", "0"], "The rate is 0 messages a second. It must be more than 0."),
        (["replay", "--topic", "orders", "--to", "x", "--since", "soon"], "--since is 'soon', which is not a time."),
        (["replay", "--topic", "a", "--to", "x", "--since", "9", "--until", "5"], "The time range is empty"),
        (["replay", "--topic", "a", "--to", "x", "--where", " "], "The condition is empty."),
        (["replay", "--topic", "a", "--to", "x", "--to-group", "g"], "Give either --to or --to-group, not both."),
        (
            ["replay", "--topic", "a", "--to", "x", "--master", "spark://h:7077"],
            "A replay on a cluster of Spark needs --progress",
        ),
        (["drain"], "Name the group, its topics and the archive: skyrocket pipeline drain GROUP TOPIC --to FOLDER"),
        (["drain", "g", "orders"], "Name the group, its topics and the archive"),
        (["drain", "g", "orders", "--to", "s3://bucket/x"], "'s3://bucket/x' is a URL"),
        (["drain", "g", "order-*", "--to", "/tmp/x"], "'order-*' is a pattern. Name each topic that is to be drained."),
        (["drain", "g", "--prove", "/tmp/x"], "--prove takes the folder of a drain, and nothing else."),
        (["verify"], "Name store directories, or an archive with --archive."),
        (["verify", "--replica", "/tmp/x"], "--replica compares two stores: skyrocket pipeline verify MASTER --replica FOLDER"),
        (["verify", "/nowhere/x"], "/nowhere/x is not a store"),
        (["verify", "--archive", "/nowhere/x"], "/nowhere/x is not an archive."),
        (["verify", "/nowhere/x", "--only-topic", "a"], "--only-topic chooses topics of an archive, and --archive is missing."),
        (["drain", "--prove", "/nowhere/x"], "/nowhere/x is not the archive of a drain."),
        (["signup-demo", "--seconds", "1"], "--seconds is 1. It must be 4 to 3600."),
        (["signup-demo", "--rate", "0"], "--rate is 0. It must be 1 to 1000."),
        (["signup-demo", "--minute", "0"], "--minute is 0. It must be 1 to 3600."),
        (["signup-demo", "--seconds", "3600", "--rate", "1000"], "is more than 200,000 sign-ups. Choose less of one."),
    ],
)
def test_wrong_arguments_are_one_sentence_before_spark_starts(arguments: list[str], sentence: str):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


# --- what all jobs share


def command_of(job: object, **given: bool) -> typer.Typer:
    made = typer.Typer()
    made.command()(pipeline_job(**given)(job))
    return made


def counting(options: JobOptions, word: Annotated[str, typer.Argument()]) -> JobResult:
    """Count the letters."""
    if word == "wrong":
        raise ArgumentError("The word is wrong.")
    if word == "broken":
        raise ArchiveError("The archive is broken.")
    document = {"letters": len(word), "master": options.master, **options.cluster, **options.config}
    return JobResult(document, f"{word} has {len(word)} letters.", lambda: f"<p>{word}</p>")


def test_a_job_gets_its_options_and_prints_text_or_json(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    made = command_of(counting)
    assert CliRunner().invoke(made, ["abc"]).stdout == "abc has 3 letters.\n"
    done = CliRunner().invoke(made, ["abc", "--json", "-n", "h:1", "--master", "local[1]", "--conf", "spark.x=a=b"])
    assert json.loads(done.stdout) == {"letters": 3, "master": "local[1]", "nameserver": "h:1", "spark.x": "a=b"}


def test_errors_of_a_job_have_the_exit_code_of_their_kind():
    made = command_of(counting)
    for word, code, sentence in (("wrong", 2, "The word is wrong.\n"), ("broken", 1, "The archive is broken.\n")):
        done = CliRunner().invoke(made, [word])
        assert (done.exit_code, done.stderr) == (code, sentence)


def test_an_error_of_sparks_java_is_one_sentence():
    def giving_up(options: JobOptions) -> JobResult:
        """Lose a task four times."""
        raise Py4JError("An error occurred.\n: org.apache.spark.SparkException: Task 0 was lost four times\n\tat org.apache.x")

    done = CliRunner().invoke(command_of(giving_up), [])
    assert (done.exit_code, done.stderr) == (1, "Task 0 was lost four times\n")


def test_a_result_that_is_bad_news_is_printed_and_the_exit_code_is_1(tmp_path: Path):
    def losing(options: JobOptions) -> JobResult:
        """Lose something."""
        return JobResult({"master": options.master}, "A message was lost.", lambda: "<p>lost</p>", is_sound=False)

    page = tmp_path / "x.html"
    done = CliRunner().invoke(command_of(losing, has_report=True), ["--report", str(page)])
    assert (done.exit_code, done.stdout, done.stderr, page.read_text()) == (1, "A message was lost.\n", "", "<p>lost</p>")


def test_a_job_that_brings_its_cluster_uses_another_only_if_the_command_names_it(monkeypatch: pytest.MonkeyPatch):
    def naming(options: JobOptions) -> JobResult:
        """Name the cluster."""
        return JobResult({}, options.cluster.get("nameserver", "its own"))

    monkeypatch.setenv("NAMESRV_ADDR", "production:9876")
    made = command_of(naming, brings_cluster=True)
    assert CliRunner().invoke(made, []).stdout == "its own\n"
    assert CliRunner().invoke(made, ["-n", "h:1"]).stdout == "h:1\n"
    assert CliRunner().invoke(command_of(naming), []).stdout == "production:9876\n"


def test_lines_below_the_bar_are_shown_on_a_terminal_and_go_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with show_progress("starting", is_shown=True) as on_progress:
        on_progress(JobProgress("draining", 3, 9, "sign-ups", ("waiting: sms 12", "[not markup]")))
    shown = capsys.readouterr().err
    for text in ("draining", "3 of 9 sign-ups", "waiting: sms 12", "[not markup]"):
        assert text in shown


def test_a_job_with_a_report_writes_it_to_the_file(tmp_path: Path):
    made = command_of(counting, has_report=True)
    CliRunner().invoke(made, ["abc", "--report", str(tmp_path / "x.html")])
    assert (tmp_path / "x.html").read_text() == "<p>abc</p>"
    assert "--report" not in CliRunner().invoke(command_of(counting), ["--help"]).output


def test_a_cluster_is_named_as_sparks_source_names_it():
    assert cluster_options_of(namesrv="a:1;b:1", namespace="n", tls=True, access_key="k", secret_key="s") == {
        "nameserver": "a:1;b:1",
        "namespace": "n",
        "accessKey": "k",
        "secretKey": "s",
        "tls": "true",
    }


def test_no_module_of_a_command_imports_a_job_at_its_top():
    """`skyrocket pipeline NAME --help` would take as long as the import of Spark."""
    folder = Path(__file__).resolve().parents[3] / "src" / "skyrocket" / "cli" / "pipeline_jobs"
    for path in folder.glob("*.py"):
        found = [node.module or "" for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)]
        heavy = [name for name in found if name.startswith(("pyspark", "skyrocket.spark", "skyrocket.pipelines."))]
        assert [name for name in heavy if name not in ("skyrocket.pipelines.errors", "skyrocket.pipelines.progress")] == [], path
