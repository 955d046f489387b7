"""`python -m tools.client_reference`: write docs/client-reference.md from the client's signatures, docstrings and comments.

The entry of a class has its docstring, the fields in its body with the comment beside each, and its public methods and properties
with their docstrings. Methods without a docstring, and those of `INTERNAL`, are not for users. The options of a client are the
fields of its options class, with the defaults of its constructor.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from skyrocket.client.options import ClientKeywords

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "client-reference.md"

HEAD = """\
# The client: reference

`make reference` writes this page from the source, and `tests/client/test_reference.py` keeps it up to date. Read
[client.md](client.md) and [consumers.md](consumers.md) first. Import names from `skyrocket.client`, unless the entry names
another module. `skyrocket.client.sync` has the clients without `await`. `Admin` has [its own page](admin.md).
"""


class Section(NamedTuple):
    title: str
    names: tuple[str, ...]
    module: str = "skyrocket.client"


SECTIONS = (
    Section("Producers", ("Producer", "TransactionProducer", "Outcome", "TransactionReceipt", "Receipt", "SendStatus",
                          "ProducerInterceptor")),
    Section("Consumers", ("Consumer", "PullConsumer", "RetryLater", "Verdict", "Received", "Skipped", "Sql", "sql",
                          "ConsumerInterceptor")),
    Section("Messages and queues", ("Message", "Queue")),
    Section("Strategies", ("Averagely", "Circle", "Configured", "ConsistentHash", "MachineRoom", "MachineRoomNearby", "Strategy"),
            "skyrocket.client.consumer.strategies"),
    Section("Options of all clients", ("ClientOptions", "Credentials")),
    Section("Limits", ("ClientLimits", "ConsumerLimits")),
    Section("At least once", ("Deduplicator", "MemoryClaims", "InProgressError", "VersionCheck", "LossDetector", "LossReport",
                              "StreamReport")),
    Section("", ("SqliteClaims", "RedisClaims", "AsyncRedisClaims", "SqlClaims", "SqliteVersions", "RedisVersions", "SqlVersions",
                 "Tracing"), "skyrocket.client.helpers"),
    Section(
        "Errors",
        (
            *("ClientError", "ConfigurationError", "InvalidMessageError", "ClientClosedError", "NoNameserverError"),
            *("NoRouteError", "NotFoundError", "BrokerError", "UnreachableError", "DisconnectedError", "TimedOutError"),
            *("OverloadedError", "SendFailedError", "SendTimedOutError", "Attempt", "RequestTimedOutError", "ReplyError"),
        ),
    ),
)  # fmt: skip
ELSEWHERE = {"Admin"}
# Public for other modules of the client, but not for its users.
INTERNAL = {
    "Consumer": {"complete_current", "next_batch"},
    "Queue": {"of", "as_body"},
    "Message": {"is_plain"},
    "Received": {"__init__"},
    "ConsumerLimits": {"divide"},
    "Tracing": {"sending", "handlers"},
}
_COROUTINE = re.compile(r"Coroutine\[Any, Any, (.*)\]")
OPTIONS = {
    "Producer": "skyrocket.client.producer.options.ProducerOptions",
    "Consumer": "skyrocket.client.consumer.options.ConsumerOptions",
    "PullConsumer": "skyrocket.client.consumer.pull_consumer.PullConsumerOptions",
}


def reference() -> str:
    text = "\n".join([HEAD, *(line for section in SECTIONS for line in _section(section))])
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f"## {section.title}\n"
    module = importlib.import_module(section.module)
    for name in section.names:
        found = getattr(module, name)
        yield f"### {name}\n"
        if section.module != "skyrocket.client":
            yield f"In `{section.module}`.\n"
        yield from _class(found) if inspect.isclass(found) else _function(name, found)


# --- classes


def _class(found: type) -> Iterator[str]:
    own_bases = [base.__name__ for base in found.__bases__ if base.__module__.startswith("skyrocket.") and not _is_private(base)]
    if own_bases:
        yield f"A `{'`, `'.join(own_bases)}`.\n"
    if "__doc__" in vars(found) and found.__doc__ and not found.__doc__.startswith(f"{found.__name__}("):
        yield _prose(found.__doc__)
    hidden = INTERNAL.get(found.__name__, set())
    constructor = vars(found).get("__init__") if "__init__" not in hidden else None
    if found.__name__ in OPTIONS:
        yield f"```\n{found.__name__}(nameservers: Nameservers = None, **options)\n```\n"
        yield from _options(found, OPTIONS[found.__name__])
    elif constructor is not None and constructor.__module__ != "builtins" and "__dataclass_fields__" not in vars(found):
        yield from _function(found.__name__, constructor)
    yield from _fields(found)
    members = {name: member for name, member in vars(found).items() if not name.startswith("_") and name not in hidden}
    for name, member in members.items():
        if isinstance(member, property) and member.fget is not None:
            kind = _annotation(inspect.signature(member.fget).return_annotation)
            yield f"- `{name}`: {kind}. {' '.join(_prose(member.fget.__doc__).split())}".rstrip(" .")
    yield ""
    for name, member in members.items():
        if (inspect.isfunction(member) or isinstance(member, classmethod)) and member.__doc__:
            yield from _function(name, member.__func__ if isinstance(member, classmethod) else member)


def _options(found: type, path: str) -> Iterator[str]:
    module, _, name = path.rpartition(".")
    options = getattr(importlib.import_module(module), name)
    defaults = inspect.signature(found).parameters
    yield "| option | | default | |\n|---|---|---|---|"
    for field in _body(options):
        default = defaults[field.name].default
        shown = "" if default is inspect.Parameter.empty else f"`{default!r}`"
        yield f"| `{field.name}` | {_code(field.kind)} | {shown} | {_cell(field.comment)} |"
    yield ""
    shared = ", ".join(f"`{field.name}`" for field in _body(ClientKeywords))
    yield f"Also keywords: {shared}, which set fields of [ClientOptions](#clientoptions).\n"


def _fields(found: type) -> Iterator[str]:
    bodies = [base for base in found.__bases__ if _is_private(base)] + [found]  # fields of a private base belong to the class
    fields = [field for body in bodies for field in _body(body) if not field.name.startswith("_")]
    if fields:
        yield "| | | | |\n|---|---|---|---|"
        for field in fields:
            yield f"| `{field.name}` | {_code(field.kind)} | {_code(field.default)} | {_cell(field.comment)} |"
        yield ""


def _is_private(base: type) -> bool:
    return base.__name__.startswith("_")


class Field(NamedTuple):
    name: str
    kind: str
    default: str
    comment: str


def _body(found: type) -> list[Field]:
    """Return the fields of a class's body, each with the comment behind it and on the lines below."""
    source = textwrap.dedent(inspect.getsource(found))
    lines = source.splitlines()
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    fields = []
    for entry in node.body:
        end = entry.end_lineno or 0
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name):
            kind, name, value = ast.unparse(entry.annotation), entry.target.id, entry.value
        elif isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
            kind, name, value = "", entry.targets[0].id, entry.value
        else:
            continue
        comment = [lines[end - 1][entry.end_col_offset or 0 :].strip().removeprefix("#").strip()]
        while end < len(lines) and comment[0] and lines[end].strip().startswith("#"):
            comment.append(lines[end].strip().removeprefix("#").strip())
            end += 1
        fields.append(Field(name, kind, _default(value), " ".join(comment).strip()))
    return fields


def _default(value: ast.expr | None) -> str:
    text = "" if value is None else ast.unparse(value)
    return "" if text.startswith(("field(", "msgspec.field(", "auto(", "sysflag.")) else text


# --- functions


class _Text:
    """An annotation whose `repr` is its text in the source."""

    def __init__(self, text: object) -> None:
        self._text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> str:
    return "" if annotation is inspect.Signature.empty else f"`{_Text(annotation)!r}`"


def _is_unpacked(parameter: inspect.Parameter) -> bool:
    """Whether a parameter has no annotation for readers: none, or that of `**options`, whose fields are elsewhere."""
    return parameter.annotation is parameter.empty or str(parameter.annotation).startswith("Unpack[")


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=each.empty if _is_unpacked(each) else _Text(each.annotation))
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    returns = signature.return_annotation
    if returns in (inspect.Signature.empty, "None") or name[0].isupper():
        shown = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    else:
        shown = signature.replace(parameters=parameters, return_annotation=_Text(returns))
    coroutine = _COROUTINE.fullmatch(str(returns))  # a plain function that returns a coroutine is awaited too
    if coroutine is not None:
        shown = shown.replace(return_annotation=_Text(coroutine[1]))
    before = "await " if coroutine is not None or inspect.iscoroutinefunction(function) else ""
    yield f"```\n{before}{name}{shown}\n```\n"
    yield _prose(function.__doc__)


# --- text


def _prose(text: str | None) -> str:
    return "" if text is None else inspect.cleandoc(text).replace("<", "&lt;") + "\n"


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(reference())
