"""How long a broker that ended waits before it starts again."""

from __future__ import annotations

from skyrocket.cli.local_cluster.supervisor import PAUSE_S, PAUSE_S_MAX, STEADY_S, RestartPause


def test_pause_doubles_up_to_its_bound():
    pause = RestartPause()
    pauses = [pause.after(0.1) for _ in range(9)]
    assert pauses[:4] == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S, 8 * PAUSE_S]
    assert pauses[-1] == PAUSE_S_MAX


def test_pause_is_short_again_after_a_broker_ran_for_a_while():
    pause = RestartPause()
    for _ in range(5):
        pause.after(STEADY_S - 1)
    assert pause.after(STEADY_S) == PAUSE_S
    assert pause.after(0) == 2 * PAUSE_S
