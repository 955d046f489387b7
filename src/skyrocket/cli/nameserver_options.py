"""How commands find nameservers: --namesrv or --address-server, or else the environment, which every command reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Final

import typer

NAMESERVERS_VARIABLE: Final = "NAMESRV_ADDR"  # Apache's
ADDRESS_SERVER_VARIABLE: Final = "ROCKETMQ_NAMESRV_DOMAIN"  # what Java's programs take as -Drocketmq.namesrv.domain

DEFAULT_NAMESERVER: Final = "127.0.0.1:9876"  # where `skyrocket run` listens

NAMESERVERS_HELP: Final = f"Nameservers, separated by semicolons. Without it: {NAMESERVERS_VARIABLE}, or {DEFAULT_NAMESERVER}."
Namesrv = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        help=NAMESERVERS_HELP,
    ),
]
AddressServer = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help=f"An HTTP server that lists the nameservers, or its URL. Without it: {ADDRESS_SERVER_VARIABLE}.",
    ),
]


def read_environment(environment: Mapping[str, str] | None = None) -> tuple[str | None, str | None]:
    """Return the nameservers and the address server that the environment names, at most one of them. Nameservers come first."""
    environment = os.environ if environment is None else environment
    nameservers = environment.get(NAMESERVERS_VARIABLE, "").strip()
    if nameservers:
        return nameservers, None
    return None, environment.get(ADDRESS_SERVER_VARIABLE, "").strip() or None
