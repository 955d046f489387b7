"""The doctor: says what is wrong with a cluster, a store directory or a machine, with evidence and what to do.

    facts (collected by thin shells) ──▶ rules (tables of pure functions) ──▶ findings

`cluster/` asks through the admin client, so it serves Apache's clusters as ours. `store/` reads a store directory without a
broker. `machine/` reads the limits of this machine. `backlog/` has the looks at consumer groups and their rules, which the job
`skyrocket pipeline backlog` shares. docs/doctor.md has a section for each rule.
"""
