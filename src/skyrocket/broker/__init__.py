"""The broker: one module per capability, each registering its codes with the router.

settings                    every setting, as typed rows
topics, subscription_groups, consumer_offsets, clients, queue_locks     tables (pure), and their handlers
send                        messages in
pull, waiting_pulls         messages out, and the table behind long polling
registration                telling the nameservers
broker                      the process: puts the parts together
"""
