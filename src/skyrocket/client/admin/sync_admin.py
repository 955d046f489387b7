"""The nouns of `Admin` for those who do not await: the same methods with the same arguments, each waited for.

Who makes them gives `run`, which carries a coroutine out in the loop where the client lives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from skyrocket.client.admin import cluster, groups, messages, offsets, topics

T = TypeVar("T")
N = TypeVar("N")
A = ParamSpec("A")


class Run(Protocol):
    def __call__(self, job: Coroutine[Any, Any, T], /) -> T: ...


class Noun(Generic[N]):
    def __init__(self, find: Callable[[], N], run: Run) -> None:
        self.find = find
        self.run = run


def _waited(method: Callable[Concatenate[N, A], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Noun[N], A], T]:
    @wraps(method)
    def wait(noun: Noun[N], *args: A.args, **kwargs: A.kwargs) -> T:
        return noun.run(method(noun.find(), *args, **kwargs))

    return cast("Callable[Concatenate[Noun[N], A], T]", wait)


def _iterated(method: Callable[Concatenate[N, A], AsyncIterator[T]]) -> Callable[Concatenate[Noun[N], A], Iterator[T]]:
    @wraps(method)
    def iterate(noun: Noun[N], *args: A.args, **kwargs: A.kwargs) -> Iterator[T]:
        items = method(noun.find(), *args, **kwargs)
        while (item := noun.run(_next(items))) is not None:
            yield item

    return cast("Callable[Concatenate[Noun[N], A], Iterator[T]]", iterate)


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)


class Topics(Noun[topics.Topics]):
    create = _waited(topics.Topics.create)
    delete = _waited(topics.Topics.delete)
    names = _waited(topics.Topics.names)
    get = _waited(topics.Topics.get)
    route = _waited(topics.Topics.route)
    status = _waited(topics.Topics.status)
    groups = _waited(topics.Topics.groups)


class Groups(Noun[groups.Groups]):
    create = _waited(groups.Groups.create)
    delete = _waited(groups.Groups.delete)
    names = _waited(groups.Groups.names)
    get = _waited(groups.Groups.get)
    members = _waited(groups.Groups.members)
    progress = _waited(groups.Groups.progress)
    topics = _waited(groups.Groups.topics)
    producers = _waited(groups.Groups.producers)


class Offsets(Noun[offsets.Offsets]):
    get = _waited(offsets.Offsets.get)
    at = _waited(offsets.Offsets.at)
    reset = _waited(offsets.Offsets.reset)
    set = _waited(offsets.Offsets.set)
    clone = _waited(offsets.Offsets.clone)


class Messages(Noun[messages.Messages]):
    by_key = _waited(messages.Messages.by_key)
    by_unique_id = _waited(messages.Messages.by_unique_id)
    by_offset_id = _waited(messages.Messages.by_offset_id)
    by_offset = _waited(messages.Messages.by_offset)
    peek = _waited(messages.Messages.peek)
    read = _iterated(messages.Messages.read)


class Cluster(Noun[cluster.Cluster]):
    brokers = _waited(cluster.Cluster.brokers)
    states = _waited(cluster.Cluster.states)
    runtime = _waited(cluster.Cluster.runtime)
    config = _waited(cluster.Cluster.config)
    update_config = _waited(cluster.Cluster.update_config)
    nameserver_config = _waited(cluster.Cluster.nameserver_config)
    update_nameserver_config = _waited(cluster.Cluster.update_nameserver_config)
