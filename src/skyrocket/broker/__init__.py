"""The broker: one module per capability, each registering its codes with the router.

settings                    every setting, as typed rows
topics, subscription_groups, consumer_offsets, clients, queue_locks     tables (pure)
*_handlers                  the requests over those tables, and over the broker itself
intake, send                messages in: what is checked, and one append for all of a read event
pull, waiting_pulls         messages out, and the table behind long polling
counters                    what was sent and fetched
persistence, registration   the tables' files; telling the nameservers
broker                      the process: puts the parts together
"""
