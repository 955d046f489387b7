"""`skyrocket proxy`: its options and settings file, and who may reach it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from skyrocket.cli.proxy import _check_exposure, _cluster_texts
from skyrocket.proxy.settings import ProxySettings
from skyrocket.settings.errors import SettingsError
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SkyrocketNameserver, SkyrocketProcess, cluster_info
from tests.unit.cli.test_addresses import skyrocket

CERTIFICATES = {
    "tls.server.certPath": "cert.pem",
    "tls.server.keyPath": "key.pem",
    "tls.server.trustCertPath": "ca.pem",
    "tls.server.need.client.auth": "require",
}


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.1"])
def test_a_proxy_that_strangers_could_use_needs_insecure_spelled_out(bind: str, caplog: pytest.LogCaptureFixture):
    open_to_all = ProxySettings(bind_address=bind)
    with pytest.raises(SettingsError, match=r"checks nobody.*give --insecure"):
        _check_exposure(open_to_all, insecure=False)
    with caplog.at_level(logging.WARNING):
        _check_exposure(open_to_all, insecure=True)
    assert "It was started with --insecure" in caplog.text


def test_loopback_and_required_certificates_need_no_insecure():
    for settings in (ProxySettings(), ProxySettings(bind_address="0.0.0.0").with_texts(CERTIFICATES)):
        _check_exposure(settings, insecure=False)


def test_the_command_ends_with_one_sentence_when_it_cannot_start(tmp_path: Path):
    (tmp_path / "proxy.conf").write_text("brokerPort=broker-a=8101\n")
    for arguments, sentence in (
        (["--host", "0.0.0.0"], "checks nobody"),
        (["-c", "proxy.conf"], "'brokerPort' is not a setting of the proxy"),
        (["--broker-port", "broker-a"], "brokerPorts must be ports of brokers"),
        (["--cluster", "unknown"], "unknown"),
    ):
        done = skyrocket("proxy", *arguments, cwd=tmp_path, HOME=str(tmp_path))
        assert (done.returncode, sentence in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_options_override_the_file_and_the_ports_are_printed(tmp_path: Path):
    port, other, for_broker = free_port(), free_port(), free_port()
    (tmp_path / "proxy.conf").write_text(f"remotingListenPort={other}\nadvertisedHost=mq.example\n")
    with SkyrocketNameserver(tmp_path / "names") as names:
        options = ["-c", "proxy.conf", "-n", names.nameserver, "--port", str(port), "--broker-port", f"broker-a={for_broker}"]
        with SkyrocketProcess(
            "proxy", tmp_path, ["proxy", *options], lambda: cluster_info(f"127.0.0.1:{port}") is not None
        ) as run:
            printed = run.log_tail()
            assert f"The proxy is ready on mq.example:{port}." in printed
            assert f"Broker broker-a with id 0 is on mq.example:{for_broker}." in printed
            run.stop()


def test_a_profile_gives_the_nameservers_and_their_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "config.toml"
    text = (
        '[clusters.prod]\nnamesrv = "10.0.0.1:9876"\ntls-ca-file = "ca.pem"\n[clusters.listed]\naddress-server = "names:8080"\n'
    )
    file.write_text(text)
    monkeypatch.setenv("SKYROCKET_CONFIG", str(file))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert _cluster_texts(None, "prod", tls=False, is_configured=True) == {
        "namesrvAddr": "10.0.0.1:9876",
        "tls.enable": "true",
        "tls.client.trustCertPath": str(tmp_path / "ca.pem"),
    }
    assert _cluster_texts(None, None, tls=False, is_configured=True) == {}, "the file names the cluster"
    assert _cluster_texts("h:1", None, tls=True, is_configured=True) == {"namesrvAddr": "h:1", "tls.enable": "true"}
    with pytest.raises(SettingsError, match="asks no address server"):
        _cluster_texts(None, "listed", tls=False, is_configured=False)
