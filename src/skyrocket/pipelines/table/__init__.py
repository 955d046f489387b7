"""Turns a topic of changes into a table that shows the latest state of each key.

job              the loop: plan a batch, let Spark's tasks decode it, decide, commit
change_spec      where a change has its key, its version and its mark of deletion (pure)
changes          messages to rows of changes: typed columns, or the reason why a message is rejected (pure)
changes_source   the Spark source whose tasks do that
feed             where changes come from: a topic, read by these tasks
fold             which changes a table takes: both modes (pure)
target           what a target has to do, and the description of a table
targets          the names of targets, such as postgresql:… and delta:…; delta_table and iceberg_table by committed_target
"""
