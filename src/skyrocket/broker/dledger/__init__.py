"""A node of a DLedger group: the shell around `skyrocket.raft`, which decides, and the store of the group's log.

group_settings   the group as the settings describe it (pure)
group            what the broker starts and asks: builds the parts below
driver           events to the state machine, its effects to store and network
peer_links       requests to the other nodes
node_port        requests of the other nodes and of tools, on the node's own port
term_saver       writes term and vote in a thread
entry_reader     reads entries for pushes and comparisons
marker           the message with which a new leader confirms what the last one has left
role_follower    the broker's role follows the node's: leader is master, the others are slaves
"""
