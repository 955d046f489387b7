"""Rules of the code base that a test can check: imports between packages, purity, sizes, names."""

from __future__ import annotations

import ast
import itertools
import re
from functools import cache
from pathlib import Path

import pytest

from skyrocket.protocol import system_names

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "skyrocket"

# A package imports only from packages named in its row. Growing a row is a decision about the design: docs/architecture.md.
MAY_IMPORT: dict[str, set[str]] = {
    "durable_file": set(),
    "supervised_task": set(),
    "rotating_file": set(),
    "compiled": set(),
    "clock": {"compiled"},
    "chance": set(),
    "protocol": {"compiled"},
    "store": {"supervised_task", "compiled", "protocol"},
    "columnar": {"compiled", "protocol", "store"},
    "raft": {"protocol"},
    "auth": {"protocol"},
    "net": {"supervised_task", "rotating_file", "compiled", "clock", "protocol"},
    "settings": {"durable_file", "protocol", "auth", "net"},
    "metrics": {"compiled", "protocol", "net"},
    "nameserver": {"durable_file", "supervised_task", "clock", "protocol", "auth", "net", "settings", "metrics"},
    "proxy": {"supervised_task", "clock", "protocol", "net", "settings"},
    "broker": {
        "durable_file",
        "supervised_task",
        "compiled",
        "clock",
        "chance",
        "protocol",
        "store",
        "raft",
        "auth",
        "net",
        "settings",
        "metrics",
    },
    "report": set(),
    "client": {"durable_file", "compiled", "clock", "chance", "protocol", "net"},
    "spark": {"compiled", "protocol", "store", "columnar", "net", "client"},
    "doctor": {"protocol", "store", "report", "client"},
    "pipelines": {"durable_file", "protocol", "store", "columnar", "report", "client", "spark", "doctor"},
    "console": {"supervised_task", "protocol", "net", "report", "client", "doctor"},
    "testing": {"protocol", "store", "net", "nameserver", "broker", "client"},
    "cli": {
        "rotating_file",
        "compiled",
        "protocol",
        "auth",
        "store",
        "columnar",
        "net",
        "settings",
        "nameserver",
        "proxy",
        "broker",
        "client",
        "spark",
    }
    | {"report", "doctor", "pipelines", "console", "testing"},
}

RESERVED_NAMES = {value for value in vars(system_names).values() if isinstance(value, str) and ("_" in value or "%" in value)}
RESERVED_NAMES |= {system_names.DEFAULT_TOPIC, system_names.BENCHMARK_TOPIC, *system_names.SYSTEM_GROUPS}

# Inside the client: values at the top, sessions on them, then producers, consumers and administration, helpers last.
CLIENT_MAY_IMPORT: dict[str, set[str]] = {
    "session": set(),
    "producer": {"session"},
    "consumer": {"session", "producer"},
    "admin": {"session", "consumer"},
    "helpers": {"session", "producer", "consumer"},
}

PURE = ["protocol", "raft", "auth", "report"]  # values in, values out
IMPURE_MODULES = {"asyncio", "socket", "ssl", "select", "selectors", "time", "random", "secrets", "threading", "multiprocessing"}
IMPURE_MODULES |= {"concurrent", "subprocess", "os", "io", "tempfile", "shutil", "logging"}

MODULES_MAX = 20  # in a folder, its __init__.py not counted
SOURCE_LINES_MIN = 30  # below, a module needs a reason
SHORT_FOR_A_REASON = {
    "clocks and chance of every server and of the client, which import no module of each other": {"clock.py", "chance.py"},
    "bounds, kept together in one place": {
        "client/limits.py",
        "nameserver/limits.py",
        "broker/pull/sql/limits.py",
    },
    "typed errors, kept together in one place": {
        "nameserver/errors.py",
        "net/errors.py",
        "auth/errors.py",
        "raft/errors.py",
        "settings/errors.py",
        "broker/pull/sql/errors.py",
    },
    "one rebalance strategy a file": {f"client/consumer/strategies/{name}.py" for name in ("averagely", "circle", "configured")},
    "one protocol concept a file, named as Apache's classes are": {
        "protocol/bodies/auth.py",
        "protocol/headers/ha.py",
        "protocol/headers/hooks.py",
        "protocol/message/unique_key.py",
        "protocol/crc.py",
        "protocol/versions.py",
    },
    "an entry point or a public name": {"__main__.py", "testing/sync.py", "testing/pytest_plugin.py", "testing/clock.py"},
    "one install(context) a sub-package": {
        f"broker/{name}/install.py" for name in ("admin", "clients", "pull", "send", "transactions")
    },
    "a single decision that several modules share": {
        "broker/dledger/marker.py",
        "broker/names.py",
        "client/session/proxy_failures.py",
        "compiled/source_digest.py",
        "nameserver/config_requests.py",
        "pipelines/current_user.py",
        "protocol/ledger_entry.py",
        "spark/fetch/worker_memory.py",
    },
}
SOURCE_LINES_MAX = 550
FUNCTION_LINES_MAX = 80


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The dotted modules that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "skyrocket":
                found.update(f"skyrocket.{alias.name}" for alias in node.names)
    return found


def test_every_package_is_in_the_table():
    packages = {package_of(path) for path in sources()} - {"__init__", "__main__"}
    assert packages <= set(MAY_IMPORT), "a new package needs its row in MAY_IMPORT"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_only_upwards_in_the_list(path: Path):
    package = package_of(path)
    if package == "__main__":
        package = "cli"
    allowed = MAY_IMPORT.get(package, set()) | {package}
    for module in imports_of(path):
        parts = module.split(".")
        if parts[0] == "skyrocket" and len(parts) > 1 and parts[1] in MAY_IMPORT:
            assert parts[1] in allowed, f"{package} may not import {module}"


@pytest.mark.parametrize("part", CLIENT_MAY_IMPORT)
def test_parts_of_the_client_import_only_parts_below_them(part: str):
    for path in (SOURCE / "client" / part).rglob("*.py"):
        for module in imports_of(path) - {"skyrocket.client.helpers.tracing"}:  # named in annotations only
            parts = module.split(".")
            if parts[:2] == ["skyrocket", "client"] and len(parts) > 2 and parts[2] in CLIENT_MAY_IMPORT:
                assert parts[2] in CLIENT_MAY_IMPORT[part] | {part}, f"client.{part} may not import {module}"


@pytest.mark.parametrize("path", [p for p in sources() if package_of(p) in PURE], ids=lambda path: str(path.relative_to(SOURCE)))
def test_pure_packages_have_no_io_clock_or_chance(path: Path):
    touched = {module.split(".")[0] for module in imports_of(path)} & IMPURE_MODULES
    assert not touched, f"{path.name} is pure, and imports {sorted(touched)}"
    opens = [n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name) and n.id in ("open", "print")]
    assert not opens, f"{path.name} is pure, and opens or prints at lines {opens}"


def test_client_and_servers_leave_the_random_numbers_of_the_application_alone():
    drawing = {str(path.relative_to(SOURCE)) for path in sources() if "random" in imports_of(path)}
    assert {path for path in drawing if not path.startswith("pipelines/signup/")} == {"chance.py"}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_are_small(path: Path):
    text = path.read_text()
    assert text.count("\n") <= SOURCE_LINES_MAX, f"{path.name} has {text.count(chr(10))} lines: two nouns?"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{path.name}: {node.name} has {lines} lines"


def test_folders_are_small():
    folders = {path.parent for path in [*sources(), *(TESTS / "support").rglob("*.py")]}
    crowded = {
        str(folder.relative_to(TESTS.parent)): count
        for folder in folders
        if (count := len([path for path in folder.glob("*.py") if path.name != "__init__.py"])) > MODULES_MAX
    }
    assert not crowded, f"more than {MODULES_MAX} modules in a folder: {crowded}"


def test_short_modules_have_a_reason():
    excused = set().union(*SHORT_FOR_A_REASON.values())
    short = {
        str(path.relative_to(SOURCE))
        for path in sources()
        if path.name != "__init__.py" and path.read_text().count("\n") < SOURCE_LINES_MIN
    }
    assert short - excused == set(), "merge these modules with the ones that use them, or give the reason here"
    assert excused - short == set(), "these are long enough by now, or gone: remove them here"


COMPILED = SOURCE / "compiled"
C_SOURCES = sorted(path for pattern in ("*.pyx", "*.pxi", "*.h") for path in COMPILED.glob(pattern))
# A function's head, at the left edge in C and Cython or within a Cython class. Its body is what follows, indented deeper.
CYTHON_FUNCTION = re.compile(r"^( *)(?:cdef|cpdef|def)\b[^=\n]*?\b(\w+)\(", re.MULTILINE)
C_FUNCTION = re.compile(r"^(?:static |inline )[^;{]*?\b(\w+)\([^;{]*\)\s*\{$(.*?)^\}$", re.MULTILINE | re.DOTALL)


def c_functions(path: Path) -> dict[str, int]:
    """Names of the functions in a C or Cython source, with their lines."""
    text = path.read_text()
    if path.suffix == ".h":
        return {found[1]: found[0].count("\n") + 1 for found in C_FUNCTION.finditer(text)}
    lengths = {}
    for found in CYTHON_FUNCTION.finditer(text):
        indent, body = len(found[1]), text[found.start() :].split("\n")
        head = next(number for number, line in enumerate(body) if line.rstrip().endswith(":"))
        inside = itertools.takewhile(
            lambda line, indent=indent: not line.strip() or line.startswith(" " * (indent + 1)), body[head + 1 :]
        )
        lengths[found[2]] = head + 1 + len("\n".join(inside).rstrip().split("\n"))
    return lengths


@pytest.mark.parametrize("path", C_SOURCES, ids=lambda path: path.name)
def test_compiled_sources_are_small_too(path: Path):
    assert path.read_text().count("\n") <= SOURCE_LINES_MAX, f"{path.name} is too long: two nouns?"
    functions = c_functions(path)
    long = {name: lines for name, lines in functions.items() if lines > FUNCTION_LINES_MAX}
    assert not long, f"{path.name}: these functions have too many lines: {long}"


def test_functions_of_compiled_sources_are_found():
    assert c_functions(COMPILED / "frame.pyx")["split"] > 20
    assert c_functions(COMPILED / "numbers.h").keys() >= {"put64", "put_decimal"}


@cache
def twin_calls() -> list[tuple[str, str, str]]:
    """Every `name = twin("module", _name)` in the sources: the path of the reference, the compiled module, the function."""
    calls = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "twin":
                module, reference = node.args
                assert isinstance(module, ast.Constant)
                assert isinstance(reference, ast.Name)
                calls.append((str(path.relative_to(SOURCE)), str(module.value), reference.id.removeprefix("_")))
    return calls


@pytest.mark.parametrize(("reference", "module", "name"), twin_calls(), ids=lambda value: value)
def test_a_compiled_module_names_its_references(reference: str, module: str, name: str):
    source = (COMPILED / f"{module}.pyx").read_text()
    assert f"`{reference}`" in source.split('"""')[1], f"the docstring of {module}.pyx does not name {reference}"
    assert re.search(rf"^(def {name}\(|cdef class {name}:)", source, re.MULTILINE), (
        f"{module}.pyx has no function or class {name}"
    )


@pytest.mark.parametrize(("reference", "module", "name"), twin_calls(), ids=lambda value: value)
def test_every_twin_has_a_parity_test(reference: str, module: str, name: str):
    tests = "".join(path.read_text() for path in sorted(TESTS.glob("property/*.py")))
    assert f'"{module}.{name}"' in tests, f"no property test compares {module}.{name} with {reference}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_reserved_names_stand_in_one_module(path: Path):
    if path == SOURCE / "protocol" / "system_names.py":
        return
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    assert not texts & RESERVED_NAMES, "take these names from skyrocket.protocol.system_names"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_error_is_swallowed_whole(path: Path):
    if path == SOURCE / "supervised_task.py":  # the one place that catches everything, and reports or returns it
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            last = node.body[-1]
            if isinstance(last, ast.Raise) and last.exc is None:
                continue  # it only tidies up
            assert caught not in ("", "Exception", "BaseException"), f"{path.name}:{node.lineno} catches everything"


# Apache's own class name, and the sync clients, which mirror the asynchronous ones.
NAMES_THAT_STAND_TWICE = {"Connection", "Admin", "Consumer", "Producer", "PullConsumer", "TransactionProducer"}


def definitions(path: Path) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def test_a_class_name_has_one_meaning():
    places: dict[str, list[str]] = {}
    for path in sources():
        for node in definitions(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    twice = {name: where for name, where in places.items() if len(where) > 1 and name not in NAMES_THAT_STAND_TWICE}
    assert not twice, f"choose more specific names: {twice}"


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_docstring_stands_on_its_own(path: Path):
    tree = ast.parse(path.read_text())
    leaning = [
        getattr(node, "name", "the module")
        for node in [tree, *definitions(path)]
        if (ast.get_docstring(node) or "").startswith(("The same", "Same as", "As above"))
    ]
    assert not leaning, f"these docstrings need another one to be understood: {leaning}"


def test_paths_in_the_makefile_exist():
    root = TESTS.parent
    named = set(re.findall(r"\btests/[\w/]+\.py\b", (root / "Makefile").read_text()))
    assert named
    assert not {path for path in named if not (root / path).exists()}
