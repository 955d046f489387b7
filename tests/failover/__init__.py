"""What a group does when its leader fails, as processes under load: `make failover` runs all of it at length, and reports.

test_killed_leaders       leaders are killed again and again, under load of our client and Java's; both consume
test_delays_and_outcomes  delayed messages, timers and transactions across fail-overs
test_one_way_networks     nodes that hear each other in one direction only
test_lost_disks           a node comes back with an empty directory, and another is killed as soon as it is a member
test_retention            old files are deleted on leader and followers; a follower was away for longer than that

`make test` runs a sample. SKYROCKET_FAILOVER_S is how long leaders are killed in a group of ours (0: two kills), and half of it
with nodes of Apache's; SKYROCKET_FAILOVER_ROUNDS is how often each of the other scenes is repeated (1).
"""
