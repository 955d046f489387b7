"""Copies topics to Parquet files, a Delta table or an Iceberg table, each message once.

job            the loop: plan a batch, let Spark's tasks write its files, publish them
plan           which offsets a batch takes, and which messages are gone (pure)
layout         names of folders and files, and the columns (pure)
batch_record   what a batch adds and removes, the offsets that it reaches, and what all batches have in common, as JSON (pure)
last_messages  how a topic that was created again is noticed (pure); single_messages asks the brokers
hourly_files   a task's Parquet files, one for each hour
files_source   the Spark source whose tasks write files and return one row for each
tables         how files and offsets are published together: parquet_table; delta_table and iceberg_table by committed_table
summary        what a run did, and whether it came too late (pure)
compaction     which small files to merge (pure), and the Spark source that merges them
"""
