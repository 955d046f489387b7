"""`skyrocket broker -c FILE` with files that were written for Apache's broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import FULL_DISK, SkyrocketProcess, answers

# The file that most guides to Apache RocketMQ show.
CLASSIC = """
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
defaultTopicQueueNums=4
autoCreateTopicEnable=true
autoCreateSubscriptionGroup=true
listenPort={port}
deleteWhen=04
fileReservedTime=120
mapedFileSizeCommitLog=1073741824
mappedFileSizeCommitLog=16777216
mappedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=88
storePathRootDir={root}
storePathCommitLog={root}/commitlog
storePathConsumeQueue={root}/consumequeue
storePathIndex={root}/index
storeCheckpoint={root}/checkpoint
abortFile={root}/abort
maxMessageSize=65536
flushCommitLogLeastPages=4
flushConsumeQueueLeastPages=2
flushCommitLogThoroughInterval=10000
flushConsumeQueueThoroughInterval=60000
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
checkTransactionMessageEnable=false
sendMessageThreadPoolNums=128
pullMessageThreadPoolNums=128
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def start_refused(path: Path) -> str:
    """Start a broker that must not start; return what it says."""
    command = [sys.executable, "-m", "skyrocket", "broker", "-c", str(path)]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_classic_file_starts_a_broker_with_one_warning(tmp_path: Path):
    port = free_port(-2, 1)
    disk = "".join(f"{key}={value}\n" for key, value in FULL_DISK.items())
    config = write(tmp_path / "broker.conf", CLASSIC.format(port=port, root=tmp_path / "store") + disk)
    with SkyrocketProcess("broker", tmp_path, ["broker", "-c", str(config)], lambda: answers(port)) as process:
        warnings = [line for line in process.log_tail().splitlines() if " WARNING " in line]
        process.stop()
    assert len(warnings) == 1, warnings
    for part in (
        "sendMessageThreadPoolNums, pullMessageThreadPoolNums (one thread serves all requests",
        "storeCheckpoint, abortFile (Apache's broker ignores it too",
        "mapedFileSizeCommitLog",
        "flushConsumeQueueLeastPages",
    ):
        assert part in warnings[0]
    for setting in ("storePathCommitLog", "flushCommitLogLeastPages", "brokerRole"):
        assert setting not in warnings[0]
    assert (tmp_path / "store" / "checkpoint").is_file()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "sendMessageThreadPoolNumz=8",
            "'sendMessageThreadPoolNumz' is not a setting of the broker (did you mean sendMessageThre",
        ),
        ("brokerRole=SLAVE", "brokerRole is SLAVE, but brokerId is 0, the master's. Give a slave a brokerId of 1 or more."),
        ("brokerId=1", "brokerId is 1, a slave's, but brokerRole is ASYNC_MASTER. Set brokerRole=SLAVE, or brokerId=0."),
        ("inSyncReplicas=2", "inSyncReplicas is 2, but only a SYNC_MASTER waits for slaves, and brokerRole is ASYNC_MASTER."),
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog=true needs dLegerPeers, the nodes of the group: n0-host:port;n1"),
        (
            "aclEnable=true",
            "aclEnable=true is not possible: access control of RocketMQ 4 is converted: see migrateAuthFromV1Enab",
        ),
        ("storeType=defaultRocksDB", "storeType=defaultRocksDB is not possible: nothing is stored in RocksDB."),
        ("storePathIndex=/elsewhere", "storePathIndex is /elsewhere, but this broker uses "),
        ("listenPort=high", "listenPort must be a whole number from 0 to 65535, not 'high'."),
        ("namesrvAddr=10.0.0.1:9876,10.0.0.2:9876", "namesrvAddr must be addresses, host:port;host:port, not '10.0.0.1:9876,"),
    ],
)
def test_a_real_mistake_stops_the_start(tmp_path: Path, line: str, sentence: str):
    text = f"storePathRootDir={tmp_path}/store\nsendMessageThreadPoolNums=8\n{line}\n"
    assert sentence in start_refused(write(tmp_path / "broker.conf", text))
    assert not (tmp_path / "store").exists()
