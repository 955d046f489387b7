"""The broker: one module per capability, each registering its codes with the router.

settings                    every setting, as typed rows
topics, subscription_groups, consumer_offsets, clients, queue_locks     tables (pure)
*_handlers                  the requests over those tables, and over the broker itself
intake, send                messages in: what is checked, and one append for all of a read event
ordinary_send, gathering    the same for nearly all of them, by a shorter way
pull, waiting_pulls         messages out, and the table behind long polling
pull_checks                 whether a pull may be served, and what it wants
ordinary_pull               messages out for nearly all pulls, by a shorter way
counters                    what was sent and fetched
persistence, registration   the tables' files; telling the nameservers
broker                      the process: puts the parts together
"""
