"""Which cluster, and how to talk to it: the options that source and sink share, as a value that travels to Spark's tasks."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.limits import ClientLimits
from skyrocket.client.options import ClientOptions
from skyrocket.client.session.credentials import Credentials
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.table import Option, duration_ms, flag, word

CLUSTER_OPTIONS: Final = (
    Option("nameserver", word, None, "host:port, several with ; between; otherwise what NAMESRV_ADDR says on the driver"),
    Option("namespace", word, "", "the namespace of topics and groups"),
    Option("accessKey", word, None, "who asks, where the cluster has access control"),
    Option("secretKey", word, None, "and the secret that its requests are signed with"),
    Option("securityToken", word, None, "of a temporary login"),
    Option("tls", flag, False, "connections are encrypted"),
    Option("tlsCaFile", word, None, "certificates to trust, in PEM, on every machine; otherwise the system's"),
    Option("tlsCertFile", word, None, "the client's own certificate, in PEM, where the cluster asks for one"),
    Option("tlsKeyFile", word, None, "and its key"),
    Option("tlsCheckNames", flag, True, "a server's certificate has to name its host"),
    Option("requestTimeout", duration_ms, 3_000, "for one answer of a nameserver or broker"),
    Option("retryTimeout", duration_ms, 60_000, "how long a task or the driver goes on asking a cluster that does not answer"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Plain values only: it is pickled into tasks. Equal ones share connections there."""

    nameservers: tuple[str, ...]
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

    def tls_context(self) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file)
            if self.tls_cert_file is not None:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        except OSError as error:  # ssl.SSLError is one
            named = [each for each in (self.tls_ca_file, self.tls_cert_file, self.tls_key_file) if each]
            raise OptionError(f"Option 'tls': the files {', '.join(named)} cannot be used: {error}.") from error
        context.check_hostname = self.tls_check_names
        return context

    def credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    def client_options(self) -> ClientOptions:
        """For the clients of `skyrocket.client`, in whichever process this is."""
        return ClientOptions(
            self.nameservers,
            namespace=self.namespace,
            tls=self.tls_context() or False,
            credentials=self.credentials(),
            limits=ClientLimits(request_ms=self.request_ms),
        )


def cluster_options(values: Mapping[str, Any]) -> ClusterOptions:
    """From the values of a table that has these rows."""
    if (values["accessKey"] is None) != (values["secretKey"] is None):
        raise OptionError("Options 'accessKey' and 'secretKey' belong together; one of them is missing.")
    if values["tlsKeyFile"] is not None and values["tlsCertFile"] is None:
        raise OptionError("Option 'tlsKeyFile' is the key of a certificate, but 'tlsCertFile' is missing.")
    try:
        nameservers = ClientOptions(values["nameserver"]).nameservers
    except ConfigurationError as error:
        raise OptionError(f"Option 'nameserver': {error}") from error
    return ClusterOptions(
        nameservers=nameservers,
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
