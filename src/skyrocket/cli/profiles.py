"""Profiles: named clusters in a file, so that `--cluster prod` is all that a command needs.

    default = "dev"                                  # used when nothing else names a cluster

    [clusters.prod]
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"          # or address-server = "host:8080"
    namespace = "shop"
    tls = true
    tls-ca-file = "ca.pem"                           # also tls-cert-file, tls-key-file; relative to the file
    access-key = "ops"
    secret-key-command = ["pass", "show", "mq/prod"] # or secret-key-env = "PROD_SECRET", or secret-key = "…"

The file is ~/.config/skyrocket/config.toml (in XDG_CONFIG_HOME, if that is set), or what SKYROCKET_CONFIG names. A file that
has a secret key itself must be readable by its owner only.
"""

from __future__ import annotations

import difflib
import os
import shlex
import stat
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FILE_VARIABLE: Final = "SKYROCKET_CONFIG"
CLUSTER_VARIABLE: Final = "SKYROCKET_CLUSTER"
FILE_BYTES_MAX: Final = 1024 * 1024
_COMMAND_S_MAX: Final = 60.0  # somebody may have to type a passphrase
_SECRETS: Final = ("secret-key", "secret-key-env", "secret-key-command")
_FILES: Final = ("tls-ca-file", "tls-cert-file", "tls-key-file")
_TEXTS: Final = ("namesrv", "address-server", "namespace", "access-key", "secret-key", "secret-key-env", *_FILES)
_KEYS: Final = (*_TEXTS, "tls", "secret-key-command")


class ProfileError(ValueError):
    """A profile that does not exist, or a file that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One cluster of the file."""

    name: str
    namesrv: str = ""
    address_server: str = ""
    namespace: str = ""
    tls: bool = False
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    secret_key_env: str = ""
    secret_key_command: tuple[str, ...] = ()

    @property
    def secret_source(self) -> str:
        """Say where the secret key comes from, without the key."""
        if self.secret_key:
            return "the file"
        if self.secret_key_env:
            return f"the variable {self.secret_key_env}"
        return f"the command {shlex.join(self.secret_key_command)}" if self.secret_key_command else ""

    def read_secret(self, environment: Mapping[str, str]) -> str:
        """Return the secret key: from the file, from a variable, or what a command prints."""
        if self.secret_key_env:
            secret = environment.get(self.secret_key_env, "")
            if not secret:
                raise ProfileError(f"Profile '{self.name}' takes its secret key from {self.secret_key_env}, which is not set.")
            return secret
        return self._run_command() if self.secret_key_command else self.secret_key

    def _run_command(self) -> str:
        told = f"The command of profile '{self.name}' for its secret key, {shlex.join(self.secret_key_command)},"
        try:
            done = subprocess.run(  # noqa: S603 — the user's own file names it
                self.secret_key_command, stdout=subprocess.PIPE, timeout=_COMMAND_S_MAX, check=False
            )
        except OSError as error:
            raise ProfileError(f"{told} cannot be run: {error.strerror}.") from error
        except subprocess.TimeoutExpired as error:
            raise ProfileError(f"{told} did not end within {_COMMAND_S_MAX:.0f} seconds.") from error
        secret = done.stdout.decode(errors="replace").strip()
        if done.returncode != 0 or not secret:
            raise ProfileError(f"{told} printed no key; its exit code is {done.returncode}.")
        return secret


@dataclass(frozen=True, slots=True)
class Profiles:
    """The content of the file."""

    path: Path
    default: str = ""
    clusters: Mapping[str, Profile] = field(default_factory=dict)

    def get(self, name: str) -> Profile:
        if name in self.clusters:
            return self.clusters[name]
        known = ", ".join(sorted(self.clusters))
        close = difflib.get_close_matches(name, self.clusters, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        there = f"{hint}It has: {known}." if known else "It has none. docs/command-line.md shows one."
        raise ProfileError(f"There is no cluster '{name}' in {self.path}. {there}")


def profiles_path(environment: Mapping[str, str]) -> Path:
    """Return where the file is, whether or not it exists."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "skyrocket" / "config.toml"


def read_profiles(environment: Mapping[str, str]) -> Profiles:
    """Read the file. A file that does not exist has no profiles, unless SKYROCKET_CONFIG names it."""
    path = profiles_path(environment)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
            mode = os.fstat(file.fileno()).st_mode
    except FileNotFoundError as error:
        if environment.get(FILE_VARIABLE):
            raise ProfileError(f"{path}, which {FILE_VARIABLE} names, does not exist.") from error
        return Profiles(path)
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}.") from error
    found = parse_profiles(data, path)
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and any(one.secret_key for one in found.clusters.values()):
        raise ProfileError(f"{path} has a secret key, and others may read the file. Run: chmod 600 {path}")
    return found


def complete_profile(incomplete: str) -> list[str]:
    """Return the clusters of the file that begin with what was typed, for a press of Tab."""
    try:
        return [name for name in read_profiles(os.environ).clusters if name.startswith(incomplete)]
    except ProfileError:
        return []


def parse_profiles(data: bytes, path: Path) -> Profiles:
    """Parse the text of the file. Raise ProfileError with the key that is wrong."""
    if len(data) > FILE_BYTES_MAX:
        raise ProfileError(f"{path} is larger than {FILE_BYTES_MAX} bytes.")
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path} is not TOML: {error}.") from error
    _check_keys(document, ("default", "clusters"), f"{path}")
    default, clusters = document.get("default", ""), document.get("clusters", {})
    if not isinstance(default, str) or not isinstance(clusters, dict):
        raise ProfileError(f"{path}: 'default' is a name, and each cluster is a table [clusters.NAME].")
    found = Profiles(path, default, {name: _parse_profile(name, values, path) for name, values in clusters.items()})
    if default:
        found.get(default)
    return found


def _parse_profile(name: str, values: Any, path: Path) -> Profile:
    where = f"[clusters.{name}] of {path}"
    if not isinstance(values, dict):
        raise ProfileError(f"{where} is not a table.")
    _check_keys(values, _KEYS, where)
    for key in _TEXTS:
        if not isinstance(values.get(key, ""), str):
            raise ProfileError(f"{where}: {key} is a text, not {values[key]!r}.")
    if not isinstance(values.get("tls", False), bool):
        raise ProfileError(f"{where}: tls is true or false, not {values['tls']!r}.")
    command = values.get("secret-key-command", [])
    command = shlex.split(command) if isinstance(command, str) else command
    if not isinstance(command, list) or not all(isinstance(part, str) for part in command):
        raise ProfileError(f"{where}: secret-key-command is a list of words.")
    if bool(values.get("namesrv")) == bool(values.get("address-server")):
        raise ProfileError(f"{where} needs either namesrv or address-server.")
    given = [key for key in _SECRETS if values.get(key)]
    if len(given) > 1:
        raise ProfileError(f"{where} has {' and '.join(given)}. Give one of them.")
    if bool(given) != bool(values.get("access-key")):
        missing = "the access-key" if given else "a secret key (secret-key-env, secret-key-command or secret-key)"
        raise ProfileError(f"{where} lacks {missing}. Give both, or neither.")
    texts = {key.replace("-", "_"): values[key] for key in _TEXTS if key in values}
    for key in _FILES:
        if values.get(key):
            texts[key.replace("-", "_")] = str(path.parent / Path(values[key]).expanduser())
    tls = values.get("tls", False) or any(values.get(key) for key in _FILES)
    return Profile(name=name, tls=tls, secret_key_command=tuple(command), **texts)


def _check_keys(values: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise ProfileError(
                f"{where} has an unknown key '{key}'. {f'Did you mean {close[0]}?' if close else f'Known: {known}'}"
            )
