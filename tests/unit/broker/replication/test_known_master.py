"""What a slave knows of its master, from the answers of nameservers."""

from __future__ import annotations

from skyrocket.broker.replication.known_master import KnownMaster


class Follower:
    def __init__(self) -> None:
        self.addresses: list[tuple[str, str]] = []

    def set_master(self, ha_address: str, broker_address: str = "") -> None:
        self.addresses.append((ha_address, broker_address))


def test_follower_learns_each_new_address_once():
    master, follower, asked = KnownMaster(), Follower(), []
    master.add_follower(follower)
    master.on_address.append(asked.append)
    for _ in range(2):
        master.learn("h:1", "h:2")
    master.learn("g:1", "g:2")
    assert follower.addresses == [("h:2", "h:1"), ("g:2", "g:1")]
    assert asked == ["h:1", "g:1"]


def test_master_that_is_away_keeps_the_address_of_its_log():
    master, follower = KnownMaster(), Follower()
    master.add_follower(follower)
    master.learn("h:1", "h:2")
    master.learn(None, None)
    assert (master.address, master.ha_address) == (None, "h:2")
    assert follower.addresses == [("h:2", "h:1")]


def test_configured_address_of_the_log_wins():
    master, follower = KnownMaster("set:9"), Follower()
    master.add_follower(follower)
    master.learn("h:1", "h:2")
    assert (master.address, master.ha_address) == ("h:1", "set:9")
    assert follower.addresses == [("set:9", ""), ("set:9", "h:1")]
