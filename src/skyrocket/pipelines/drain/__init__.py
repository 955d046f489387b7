"""Moves a group past its backlog: archives what waits, and then sets the group's offsets behind exactly that.

plan           which offsets wait, which of them are selected, and whether a group may still be moved (pure)
drain_record   what a drain archives, for whom, and how far it has come: one file in the archive
moving         sets the group's offsets, and waits until they hold
job            the steps in their order; each is safe to repeat
proof          compares the record with the files, the group's offsets, and what a resend or a replay has put into a topic
presentation   results for programs, terminals and reports (pure)
"""
