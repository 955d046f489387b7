"""Keys of Apache's servers that are not settings here, so that a settings file of Apache's can be used unchanged.

Most of them tune something that this server does not have, such as a thread pool. They have no effect, and one warning says why.
A few would change what the server promises: a replica, access control. Such a key is accepted with the values that say what this
server does anyway. Any other value is an error, because ignoring it would break the promise silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from skyrocket.settings.errors import SettingsError


class ForeignKey(NamedTuple):
    reason: str  # a sentence without its full stop: why the key has no effect, or what it would need
    accepted: tuple[str, ...] | None = None  # compared without case; None: every value


def without_effect(reason: str, keys: str) -> dict[str, ForeignKey]:
    """Return entries for keys, separated by white space, that may have any value."""
    return {key: ForeignKey(reason) for key in keys.split()}


def only_with(reason: str, values: Mapping[str, str]) -> dict[str, ForeignKey]:
    """Return entries for keys that may only have the given value; several values are separated by |."""
    return {key: ForeignKey(reason, tuple(value.split("|"))) for key, value in values.items()}


# Of NettyServerConfig and NettyClientConfig, which Apache's broker and nameserver share.
NETTY_KEYS: Final = {
    **without_effect(
        "connections are not served by netty",
        """
        serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads serverOnewaySemaphoreValue
        serverAsyncSemaphoreValue serverSocketSndBufSize serverSocketRcvBufSize
        serverSocketBacklog serverNettyWorkerGroupEnable serverPooledByteBufAllocatorEnable useEpollNativeSelector
        enableShutdownGracefully shutdownWaitTimeSeconds writeBufferHighWaterMark writeBufferLowWaterMark
        clientWorkerThreads clientCallbackExecutorThreads clientOnewaySemaphoreValue clientAsyncSemaphoreValue
        clientChannelMaxIdleTimeSeconds clientSocketSndBufSize clientSocketRcvBufSize clientPooledByteBufAllocatorEnable
        clientCloseSocketIfTimeout connectTimeoutMillis channelNotActiveInterval disableCallbackExecutor
        disableNettyWorkerGroup enableReconnectForGoAway maxReconnectIntervalTimeSeconds scanAvailableNameSrv
        """,
    ),
    **only_with("tls.enable switches TLS to nameservers on", {"useTLS": "false"}),
    **only_with("connections do not use a proxy", {"socksProxyConfig": "|{}"}),
}


def separate_foreign(
    texts: Mapping[str, str], foreign: Mapping[str, ForeignKey], owner: str
) -> tuple[dict[str, str], str | None]:
    """Return the texts without foreign keys, and a warning that names those that have no effect; None if there are none.

    Raise SettingsError for each foreign key whose value asks for something that `owner` does not do.
    """
    by_reason: dict[str, list[str]] = {}
    problems = []
    for key, text in texts.items():
        known = foreign.get(key)
        if known is None:
            continue
        if known.accepted is None:
            by_reason.setdefault(known.reason, []).append(key)
        elif text.strip().lower() not in map(str.lower, known.accepted):
            use = " or ".join(f"{key}={value}" for value in known.accepted)
            problems.append(f"{key}={text.strip()[:64]} is not possible: {known.reason}. Use {use}, or remove it.")
    if problems:
        raise SettingsError(" ".join(problems))
    own = {key: text for key, text in texts.items() if key not in foreign}
    if not by_reason:
        return own, None
    parts = [f"{', '.join(keys)} ({reason})" for reason, keys in by_reason.items()]
    return own, f"These keys of Apache's have no effect on {owner}: {'; '.join(parts)}."
