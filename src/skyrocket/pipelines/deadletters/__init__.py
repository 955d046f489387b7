"""The job `deadletters`: triage of the messages that a group could not consume (`%DLQ%group`).

`letters` has a dead letter as a value, `triage` groups letters by cause, topic and age, `selection` chooses some, `export` writes
them to files, `resend` sends them to their original topics, and `resend_record` remembers who resent what, so that nothing is
sent twice. `live` reads and resends letters with the admin client alone, for `skyrocket dlq`; `job` has the whole job.
"""
