"""The options that source and sink share: which cluster to use, and how to connect to it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.limits import ClientLimits
from skyrocket.client.options import NAMESERVERS_VARIABLE, ClientOptions
from skyrocket.client.session.credentials import Credentials
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.table import Option, duration_ms, flag, word

ADDRESS_SERVER_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN"  # Java's programs take it as -Drocketmq.namesrv.domain

CLUSTER_OPTIONS: Final = (
    Option("nameserver", word, None, "host:port of the nameserver, several separated by ;. Default: NAMESRV_ADDR on the driver"),
    Option(
        "addressServer",
        word,
        None,
        f"host[:port] or URL of an HTTP server that lists the nameservers. Default: {ADDRESS_SERVER_VARIABLE} on the driver",
    ),
    Option("namespace", word, "", "the namespace of topics and groups"),
    Option("accessKey", word, None, "the account, for a cluster with access control"),
    Option("secretKey", word, None, "the secret that signs the account's requests"),
    Option("securityToken", word, None, "the token of a temporary login"),
    Option("tls", flag, False, "encrypt connections"),
    Option("tlsCaFile", word, None, "PEM file of trusted certificates, on every machine. Default: those of the system"),
    Option("tlsCertFile", word, None, "PEM file of the client's certificate, for a cluster that requires one"),
    Option("tlsKeyFile", word, None, "PEM file of the certificate's key"),
    Option("tlsCheckNames", flag, True, "require that a server's certificate names its host"),
    Option("requestTimeout", duration_ms, 3_000, "timeout of one request to a nameserver or broker"),
    Option("retryTimeout", duration_ms, 60_000, "how long the driver or a task retries while the cluster does not answer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The parsed options. Plain values only, since Spark pickles them into tasks. Equal values share connections in a task."""

    nameservers: tuple[str, ...]  # none if an address server lists them
    address_server: str = ""
    namespace: str = ""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_check_names: bool = True
    request_ms: int = 3_000
    retry_ms: int = 60_000

    @property
    def named_by(self) -> str:
        """The option that names the cluster, for error messages."""
        return "nameserver" if self.nameservers else "addressServer"

    @property
    def where(self) -> str:
        """Where the cluster is to be found, for error messages."""
        return "; ".join(self.nameservers) or self.address_server

    def tls_context(self) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file)
            if self.tls_cert_file is not None:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        except OSError as error:  # ssl.SSLError is one
            named = [each for each in (self.tls_ca_file, self.tls_cert_file, self.tls_key_file) if each]
            raise OptionError(f"Option 'tls' is true, but the files {', '.join(named)} cannot be loaded: {error}.") from error
        context.check_hostname = self.tls_check_names
        return context

    def credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    def client_options(self) -> ClientOptions:
        """Return the options of `skyrocket.client` for this process."""
        return ClientOptions(
            self.nameservers,
            address_server=self.address_server,
            namespace=self.namespace,
            tls=self.tls_context() or False,
            credentials=self.credentials(),
            limits=ClientLimits(request_ms=self.request_ms),
        )


def cluster_options(values: Mapping[str, Any]) -> ClusterOptions:
    """Build the options from the values of a table that contains `CLUSTER_OPTIONS`."""
    if (values["accessKey"] is None) != (values["secretKey"] is None):
        raise OptionError("Options 'accessKey' and 'secretKey' belong together, but one of them is missing. Give both.")
    if values["tlsKeyFile"] is not None and values["tlsCertFile"] is None:
        raise OptionError("Option 'tlsKeyFile' is given without 'tlsCertFile'. Give the certificate that belongs to the key.")
    nameservers, address_server = _find_nameservers(values["nameserver"], values["addressServer"])
    return ClusterOptions(
        nameservers=nameservers,
        address_server=address_server,
        namespace=values["namespace"],
        access_key=values["accessKey"],
        secret_key=values["secretKey"],
        security_token=values["securityToken"],
        tls=values["tls"],
        tls_ca_file=values["tlsCaFile"],
        tls_cert_file=values["tlsCertFile"],
        tls_key_file=values["tlsKeyFile"],
        tls_check_names=values["tlsCheckNames"],
        request_ms=values["requestTimeout"],
        retry_ms=values["retryTimeout"],
    )


def _find_nameservers(nameserver: str | None, address_server: str | None) -> tuple[tuple[str, ...], str]:
    """Return the nameservers' addresses, or else an address server. Options precede the environment."""
    if nameserver is not None and address_server is not None:
        raise OptionError("Options 'nameserver' and 'addressServer' are both given. Give one of them.")
    if nameserver is None and address_server is None and not os.environ.get(NAMESERVERS_VARIABLE, "").strip():
        address_server = os.environ.get(ADDRESS_SERVER_VARIABLE, "").strip() or None
    if address_server is not None:
        return (), address_server
    try:
        return ClientOptions(nameserver).nameservers, ""
    except ConfigurationError as error:
        raise OptionError(f"Option 'nameserver': {error}") from error
