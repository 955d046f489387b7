"""`skyrocket profile …`: the clusters of the profile file. No command shows a secret key."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from skyrocket.cli.cluster_command import refuse
from skyrocket.cli.output import format_table, to_json
from skyrocket.cli.profiles import Profile, ProfileError, Profiles, read_profiles

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the clusters of the profile file."""
    found = _read()
    documents = [_document(found, profile) for profile in found.clusters.values()]
    rows = [
        (
            one["name"],
            one["namesrv"] or one["addressServer"],
            one["accessKey"] or "-",
            _yes_no(one["tls"]),
            _yes_no(one["default"]),
        )
        for one in documents
    ]
    none = f"{found.path} has no clusters. docs/command-line.md shows one."
    table = format_table(("NAME", "NAMESERVERS", "ACCESS KEY", "TLS", "DEFAULT"), rows, none)
    typer.echo(to_json(documents) if as_json else table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A cluster of the profile file.")], as_json: AsJson = False
) -> None:
    """Show a cluster of the profile file, and where its secret key comes from."""
    found = _read()
    try:
        document = _document(found, found.get(name))
    except ProfileError as error:
        refuse(str(error))
    rows = [(key, value if isinstance(value, str) else _yes_no(value)) for key, value in document.items() if value != ""]
    typer.echo(to_json(document) if as_json else format_table(("FIELD", "VALUE"), rows))


def _read() -> Profiles:
    try:
        return read_profiles(os.environ)
    except ProfileError as error:
        refuse(str(error))


def _document(profiles: Profiles, profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "file": str(profiles.path),
        "default": profile.name == profiles.default,
        "namesrv": profile.namesrv,
        "addressServer": profile.address_server,
        "namespace": profile.namespace,
        "tls": profile.tls,
        "tlsCaFile": profile.tls_ca_file,
        "tlsCertFile": profile.tls_cert_file,
        "tlsKeyFile": profile.tls_key_file,
        "accessKey": profile.access_key,
        "secretKeyFrom": profile.secret_source,
    }


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"
