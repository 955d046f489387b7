"""Profiles: named clusters in a file, what counts more than what, and who may read a secret."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skyrocket.cli.connection import ConnectionOptionError, resolve_clusters, resolve_connection
from skyrocket.cli.main import app
from skyrocket.cli.profiles import ProfileError, parse_profiles, profiles_path, read_profiles
from skyrocket.testing.threaded import SyncBroker
from tests.support.processes.certificates import Authority
from tests.support.processes.skyrocket_process import Skyrocket

TEXT = """\
default = "dev"

[clusters.dev]
namesrv = "127.0.0.1:9876"

[clusters.prod]
namesrv = "10.0.0.1:9876;10.0.0.2:9876"
namespace = "shop"
tls-ca-file = "ca.pem"
access-key = "ops"
secret-key-env = "PROD_SECRET"

[clusters.listed]
address-server = "names:8080"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return path


def run(file: Path, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"SKYROCKET_CONFIG": str(file), "NAMESRV_ADDR": "", **environment})


# --- which cluster


def test_a_profile_gives_address_namespace_certificates_and_credentials(file: Path):
    found = resolve_connection(namesrv=None, cluster="prod", environment={"SKYROCKET_CONFIG": str(file), "PROD_SECRET": "s"})
    assert (found.nameservers, found.namespace, found.tls) == ("10.0.0.1:9876;10.0.0.2:9876", "shop", True)
    assert found.tls_ca_file == str(file.parent / "ca.pem")
    assert (found.access_key, found.secret_key) == ("ops", "s")
    assert found.spark_options() == {
        "nameserver": "10.0.0.1:9876;10.0.0.2:9876",
        "namespace": "shop",
        "accessKey": "ops",
        "secretKey": "s",
        "tls": "true",
        "tlsCaFile": str(file.parent / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("options", "environment", "nameservers"),
    [
        ({"namesrv": "a:1"}, {"SKYROCKET_CLUSTER": "prod", "NAMESRV_ADDR": "b:1"}, "a:1"),
        ({"namesrv": None}, {"SKYROCKET_CLUSTER": "dev", "NAMESRV_ADDR": "b:1"}, "127.0.0.1:9876"),
        ({"namesrv": None}, {"NAMESRV_ADDR": "b:1"}, "b:1"),
        ({"namesrv": None, "cluster": "dev"}, {"NAMESRV_ADDR": "b:1"}, "127.0.0.1:9876"),
        ({"namesrv": None}, {}, "127.0.0.1:9876"),
        ({"namesrv": None, "cluster": "listed"}, {}, None),
    ],
)
def test_options_count_more_than_profiles_and_profiles_more_than_other_variables(
    file: Path, options: dict[str, str | None], environment: dict[str, str], nameservers: str | None
):
    found = resolve_connection(**options, environment={"SKYROCKET_CONFIG": str(file), **environment})  # type: ignore[arg-type]
    assert found.nameservers == nameservers


def test_an_option_beside_a_profile_counts_more_than_the_profile(file: Path):
    environment = {"SKYROCKET_CONFIG": str(file), "ROCKETMQ_ACCESS_KEY": "env", "ROCKETMQ_SECRET_KEY": "env", "PROD_SECRET": "s"}
    found = resolve_connection(namesrv=None, cluster="prod", namespace="other", environment=environment)
    assert (found.namespace, found.access_key) == ("other", "ops")
    found = resolve_connection(namesrv=None, cluster="prod", access_key="me", secret_key="mine", environment=environment)
    assert (found.access_key, found.secret_key) == ("me", "mine")
    assert resolve_connection(namesrv=None, cluster="dev", environment=environment).access_key == "env"


def test_two_options_that_name_a_cluster_are_refused(file: Path):
    with pytest.raises(ConnectionOptionError, match="Give either --namesrv or --cluster, not both"):
        resolve_connection(namesrv="a:1", cluster="prod", environment={"SKYROCKET_CONFIG": str(file)})


def test_several_clusters_are_named_by_repeated_options(file: Path):
    environment = {"SKYROCKET_CONFIG": str(file), "PROD_SECRET": "s3cret"}
    found = resolve_clusters(namesrv=["10.1.1.1:9876"], address_server=None, cluster=["prod", "dev"], environment=environment)
    assert [(one.name, one.arguments) for one in found] == [
        ("10.1.1.1:9876", "-n '10.1.1.1:9876'"),
        ("prod", "--cluster prod"),
        ("dev", "--cluster dev"),
    ]
    assert [one.connection.secret_key if one.connection else None for one in found] == ["", "s3cret", ""]


def test_without_an_option_there_is_one_cluster(file: Path):
    environment = {"SKYROCKET_CONFIG": str(file)}
    (found,) = resolve_clusters(namesrv=None, address_server=None, cluster=None, environment=environment)
    assert (found.name, found.arguments) == ("127.0.0.1:9876", "-n '127.0.0.1:9876'")


def test_one_of_several_clusters_without_its_secret_leaves_the_others(file: Path):
    environment = {"SKYROCKET_CONFIG": str(file)}
    found = resolve_clusters(namesrv=None, address_server=None, cluster=["prod", "dev"], environment=environment)
    assert "PROD_SECRET, which is not set" in found[0].error
    assert found[1].connection is not None
    with pytest.raises(ProfileError, match="PROD_SECRET"):
        resolve_clusters(namesrv=None, address_server=None, cluster=["prod"], environment=environment)
    with pytest.raises(ProfileError, match="Did you mean 'dev'"):
        resolve_clusters(namesrv=None, address_server=None, cluster=["prod", "dve"], environment=environment)
    with pytest.raises(ConnectionOptionError, match="Write those of several into profiles"):
        resolve_clusters(
            namesrv=["a:1", "b:1"], address_server=None, cluster=None, access_key="k", secret_key="s", environment=environment
        )


def test_the_file_is_where_the_xdg_variables_say(tmp_path: Path):
    assert profiles_path({"HOME": "/home/ann"}) == Path("/home/ann/.config/skyrocket/config.toml")
    assert profiles_path({"HOME": "/home/ann", "XDG_CONFIG_HOME": "/x"}) == Path("/x/skyrocket/config.toml")
    assert profiles_path({"HOME": "/home/ann", "SKYROCKET_CONFIG": "/y/z.toml"}) == Path("/y/z.toml")
    assert read_profiles({"XDG_CONFIG_HOME": str(tmp_path)}).clusters == {}


# --- secrets


def test_a_file_with_a_secret_that_others_may_read_is_refused(file: Path):
    file.write_text('[clusters.a]\nnamesrv = "h:1"\naccess-key = "k"\nsecret-key = "hush"\n')
    file.chmod(0o640)
    done = run(file, "profile", "list")
    assert (done.exit_code, done.stderr) == (2, f"{file} has a secret key, and others may read the file. Run: chmod 600 {file}\n")
    file.chmod(0o600)
    assert resolve_connection(namesrv=None, cluster="a", environment={"SKYROCKET_CONFIG": str(file)}).secret_key == "hush"


def test_a_command_gives_the_secret(file: Path):
    command = json.dumps([sys.executable, "-c", "print('from-a-vault')"])
    file.write_text(f'[clusters.a]\nnamesrv = "h:1"\naccess-key = "k"\nsecret-key-command = {command}\n')
    assert resolve_connection(namesrv=None, cluster="a", environment={"SKYROCKET_CONFIG": str(file)}).secret_key == "from-a-vault"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ('secret-key-env = "NOT_SET"', "takes its secret key from NOT_SET, which is not set"),
        ('secret-key-command = "false"', "printed no key; its exit code is 1"),
        ('secret-key-command = "no-such-program x"', "no-such-program x, cannot be run"),
    ],
)
def test_a_secret_that_cannot_be_had_is_a_sentence(file: Path, source: str, sentence: str):
    file.write_text(f'[clusters.a]\nnamesrv = "h:1"\naccess-key = "k"\n{source}\n')
    done = run(file, "topic", "list", "--cluster", "a")
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_command_shows_a_secret(file: Path):
    file.write_text('[clusters.a]\nnamesrv = "h:1"\naccess-key = "k"\nsecret-key = "hush"\n')
    file.chmod(0o600)
    for arguments in (["list"], ["list", "--json"], ["show", "a"], ["show", "a", "--json"]):
        done = run(file, "profile", *arguments)
        assert done.exit_code == 0, done.output
        assert "hush" not in done.output
    assert json.loads(run(file, "profile", "show", "a", "--json").stdout)["secretKeyFrom"] == "the file"
    assert "hush" not in repr(read_profiles({"SKYROCKET_CONFIG": str(file)}))


# --- what is wrong


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[clusters.a]\n", "needs either namesrv or address-server"),
        ('[clusters.a]\nnamesrv = "h:1"\naddress-server = "h"\n', "needs either namesrv or address-server"),
        ('[clusters.a]\nnameserver = "h:1"\n', "unknown key 'nameserver'. Did you mean namesrv?"),
        ("[clusters.a]\nnamesrv = 7\n", "namesrv is a text, not 7"),
        ('[clusters.a]\nnamesrv = "h:1"\ntls = "yes"\n', "tls is true or false, not 'yes'"),
        ('[clusters.a]\nnamesrv = "h:1"\naccess-key = "k"\n', "lacks a secret key"),
        ('[clusters.a]\nnamesrv = "h:1"\nsecret-key-env = "k"\n', "lacks the access-key"),
        ('[clusters.a]\nnamesrv = "h:1"\nsecret-key-env = "A"\nsecret-key = "b"\n', "has secret-key and secret-key-env"),
        ('default = "x"\n', "There is no cluster 'x'"),
        ("clusters = 7\n", "each cluster is a table"),
        ("not toml", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(text: str, sentence: str):
    with pytest.raises(ProfileError) as raised:
        parse_profiles(text.encode(), Path("config.toml"))
    assert sentence in str(raised.value)
    assert "config.toml" in str(raised.value)


def test_an_unknown_cluster_is_a_sentence_with_a_suggestion(file: Path):
    done = run(file, "topic", "list", "--cluster", "prd")
    assert done.exit_code == 2
    assert done.stderr == f"There is no cluster 'prd' in {file}. Did you mean 'prod'? It has: dev, listed, prod.\n"
    missing = run(file.with_name("none.toml"), "profile", "list")
    assert missing.stderr.endswith("none.toml, which SKYROCKET_CONFIG names, does not exist.\n")


# --- a real cluster


def test_commands_reach_the_cluster_of_a_profile(file: Path, skyrocket_sync_broker: SyncBroker):
    file.write_text(f'[clusters.here]\nnamesrv = "{skyrocket_sync_broker.nameserver}"\n')
    assert run(file, "topic", "create", "orders", "--cluster", "here").exit_code == 0
    assert run(file, "topic", "list", SKYROCKET_CLUSTER="here").stdout == "orders\n"
    assert json.loads(run(file, "profile", "list", "--json").stdout)[0]["name"] == "here"


def test_a_profile_has_the_certificates_of_mutual_tls(file: Path):
    authority = Authority.make(file.parent / "certificates")
    server, client = authority.certificate("server"), authority.certificate("client")
    settings = {**authority.mutual_settings(server, client), "tls.server.mode": "enforcing"}
    named = 'tls-ca-file = "certificates/ca.pem"\n'
    shown = 'tls-cert-file = "certificates/client.pem"\ntls-key-file = "certificates/client.key"\n'
    with Skyrocket(file.parent / "servers", settings) as running:
        file.write_text(
            f'[clusters.mutual]\nnamesrv = "{running.nameserver}"\n{named}{shown}'
            f'[clusters.unknown]\nnamesrv = "{running.nameserver}"\n{named}'
            f'[clusters.lost]\nnamesrv = "{running.nameserver}"\ntls-ca-file = "none.pem"\n'
        )
        done = run(file, "cluster", "show", "--cluster", "mutual", "--json")
        assert (done.exit_code, len(json.loads(done.stdout))) == (0, 1)
        assert run(file, "cluster", "show", "--cluster", "unknown").exit_code == 3
        lost = run(file, "cluster", "show", "--cluster", "lost")
        sentence = f"The certificates {file.parent / 'none.pem'} cannot be loaded: No such file or directory.\n"
        assert (lost.exit_code, lost.stderr) == (2, sentence)
