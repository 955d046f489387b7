"""How a command connects to a cluster: the options that all commands share, a profile, and the environment.

    options of the command  →  the profile of --cluster or SKYROCKET_CLUSTER  →  NAMESRV_ADDR, ROCKETMQ_NAMESRV_DOMAIN
                            →  the default profile  →  127.0.0.1:9876

The first of these that names a cluster decides. An option beside it, such as --namespace, counts more than the profile.
"""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from skyrocket.cli.nameserver_options import DEFAULT_NAMESERVER, NAMESERVERS_HELP, AddressServer, Namesrv, read_environment
from skyrocket.cli.profiles import CLUSTER_VARIABLE, Profile, ProfileError, complete_profile, read_profiles

if TYPE_CHECKING:
    from skyrocket.client.admin import AdminOptions

ACCESS_KEY_VARIABLE: Final = "ROCKETMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROCKETMQ_SECRET_KEY"  # noqa: S105 — a name

CONNECTION_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "namesrv": (Namesrv, None),
    "address_server": (AddressServer, None),
    "cluster": (
        Annotated[
            str | None,
            typer.Option(
                metavar="PROFILE",
                help=f"A cluster of your profiles. Without it: {CLUSTER_VARIABLE}.",
                autocompletion=complete_profile,
            ),
        ],
        None,
    ),
    "namespace": (
        Annotated[str, typer.Option(help="The namespace, which prefixes the names of topics and groups.", show_default=False)],
        "",
    ),
    "tls": (Annotated[bool, typer.Option("--tls", help="Connect with TLS.")], False),
    "access_key": (
        Annotated[
            str,
            typer.Option(help=f"The access key that signs requests. Without it: {ACCESS_KEY_VARIABLE}.", show_default=False),
        ],
        "",
    ),
    "secret_key": (
        Annotated[
            str,
            typer.Option(
                help=f"The secret key that goes with the access key. Without it: {SECRET_KEY_VARIABLE}.", show_default=False
            ),
        ],
        "",
    ),
}

SEVERAL_CLUSTERS: Final[dict[str, tuple[Any, Any]]] = {
    **CONNECTION_OPTIONS,
    "namesrv": (
        Annotated[
            list[str] | None,
            typer.Option("-n", "--namesrv", metavar="HOST:PORT", help=f"{NAMESERVERS_HELP} Repeat it for more clusters."),
        ],
        None,
    ),
    "cluster": (
        Annotated[
            list[str] | None,
            typer.Option(
                metavar="PROFILE",
                help=f"A cluster of your profiles. Repeat it for more. Without it: {CLUSTER_VARIABLE}.",
                autocompletion=complete_profile,
            ),
        ],
        None,
    ),
}
"""The same for a command that takes several clusters."""


class ConnectionOptionError(ValueError):
    """Options that do not go together, or files that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """A cluster, and how to talk to it."""

    nameservers: str | None  # None: those that the address server lists
    address_server: str = ""
    namespace: str = ""
    tls: bool = False
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)

    def client_options(self) -> AdminOptions:
        """Return the options of `skyrocket.client`, without the nameservers."""
        from skyrocket.client import Credentials  # noqa: PLC0415 — a job on Spark makes its clients elsewhere

        return {
            "namespace": self.namespace,
            "tls": self._tls(),
            "credentials": Credentials(self.access_key, self.secret_key) if self.access_key else None,
            "address_server": self.address_server,
        }

    def _tls(self) -> ssl.SSLContext | bool:
        if not self.tls_ca_file and not self.tls_cert_file:
            return self.tls
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file or None)
            if self.tls_cert_file:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file or None)
        except OSError as error:  # ssl.SSLError is one
            named = ", ".join(each for each in (self.tls_ca_file, self.tls_cert_file, self.tls_key_file) if each)
            raise ConnectionOptionError(f"The certificates {named} cannot be loaded: {error.strerror or error}.") from error
        return context

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's source."""
        named = {
            "addressServer": self.address_server,
            "nameserver": self.nameservers,
            "namespace": self.namespace,
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "tls": "true" if self.tls else "",
            "tlsCaFile": self.tls_ca_file,
            "tlsCertFile": self.tls_cert_file,
            "tlsKeyFile": self.tls_key_file,
        }
        return {name: value for name, value in named.items() if value}


_NOT_GIVEN: Final[dict[str, Any]] = {"namesrv": None}


class NamedCluster(NamedTuple):
    """One of several clusters: its name, the option that names it, and its connection or why there is none."""

    name: str
    arguments: str
    connection: ClusterConnection | None
    error: str = ""


def resolve_clusters(
    *, namesrv: Sequence[str] | None, address_server: str | None, cluster: Sequence[str] | None, **shared: Any
) -> list[NamedCluster]:
    """Find out which clusters a command means that takes several. Without any option that is one, as for every command.

    An option that names no cluster at all raises an error, and so does a single cluster. One of several whose secret key or
    certificate is missing has the sentence instead, so that the others can be used.
    """
    given: list[tuple[str, str, dict[str, Any]]] = [
        *((one, f"-n '{one}'", {"namesrv": one}) for one in namesrv or ()),
        *((one, f"--cluster {shlex.quote(one)}", {"cluster": one}) for one in cluster or ()),
        *((one, f"--address-server '{one}'", {"address_server": one}) for one in (address_server,) if one),
    ]
    if not given:
        found = resolve_connection(namesrv=None, **shared)
        where = found.nameservers or found.address_server
        return [NamedCluster(where, f"-n '{where}'" if found.nameservers else f"--address-server '{where}'", found)]
    if len(given) == 1:
        name, arguments, chosen = given[0]
        return [NamedCluster(name, arguments, resolve_connection(**_NOT_GIVEN | chosen | shared))]
    if shared.get("access_key") or shared.get("secret_key"):
        raise ConnectionOptionError("--access-key and --secret-key are for one cluster. Write those of several into profiles.")
    clusters = []
    profiles = read_profiles(shared.get("environment") or os.environ) if cluster else None
    for name, arguments, chosen in given:
        if profiles is not None and "cluster" in chosen:
            profiles.get(name)  # a name that is typed wrong is told at once
        try:
            clusters.append(NamedCluster(name, arguments, resolve_connection(**_NOT_GIVEN | chosen | shared)))
        except (ConnectionOptionError, ProfileError) as error:
            clusters.append(NamedCluster(name, arguments, None, str(error)))
    return clusters


def resolve_connection(
    *,
    namesrv: str | None,
    address_server: str | None = None,
    cluster: str | None = None,
    namespace: str = "",
    tls: bool = False,
    access_key: str = "",
    secret_key: str = "",
    environment: Mapping[str, str] | None = None,
    may_run: bool = True,
) -> ClusterConnection:
    """Find out which cluster a command means. Raise ConnectionOptionError or ProfileError when that is not clear.

    Without `may_run`, no command of a profile is run for its secret key.
    """
    environment = os.environ if environment is None else environment
    given = [
        name for name, value in (("--namesrv", namesrv), ("--address-server", address_server), ("--cluster", cluster)) if value
    ]
    if len(given) > 1:
        raise ConnectionOptionError(f"Give either {given[0]} or {given[1]}, not both.")
    profile = None
    if not namesrv and not address_server:
        namesrv, address_server, profile = _find_cluster(cluster, environment)
    if profile is not None and profile.access_key and not access_key and not secret_key:
        access_key, secret_key = profile.access_key, profile.read_secret(environment, may_run=may_run)
    else:
        access_key = access_key or environment.get(ACCESS_KEY_VARIABLE, "")
        secret_key = secret_key or environment.get(SECRET_KEY_VARIABLE, "")
    if bool(access_key) != bool(secret_key):
        missing = "--secret-key" if access_key else "--access-key"
        raise ConnectionOptionError(f"{missing} is missing. Give --access-key and --secret-key together, or neither.")
    return ClusterConnection(
        nameservers=namesrv or (None if address_server else DEFAULT_NAMESERVER),
        address_server=address_server or "",
        namespace=namespace or (profile.namespace if profile else ""),
        tls=tls or (profile is not None and profile.tls),
        tls_ca_file=profile.tls_ca_file if profile else "",
        tls_cert_file=profile.tls_cert_file if profile else "",
        tls_key_file=profile.tls_key_file if profile else "",
        access_key=access_key,
        secret_key=secret_key,
    )


def _find_cluster(cluster: str | None, environment: Mapping[str, str]) -> tuple[str | None, str | None, Profile | None]:
    """Return nameservers or address server, and the profile that they are from, for a command without --namesrv."""
    name = cluster or environment.get(CLUSTER_VARIABLE, "").strip()
    if not name:
        namesrv, address_server = read_environment(environment)
        if namesrv or address_server:
            return namesrv, address_server, None
    profiles = read_profiles(environment)
    name = name or profiles.default
    if not name:
        return None, None, None
    profile = profiles.get(name)
    return profile.namesrv or None, profile.address_server or None, profile
