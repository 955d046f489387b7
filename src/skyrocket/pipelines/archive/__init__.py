"""Copies topics to Parquet files, a Delta table or an Iceberg table, each message once.

job            the loop: plan a batch, let Spark's tasks write its files, publish them
plan           which offsets a batch takes, and which messages are gone (pure)
layout         names of folders and files, and the columns (pure)
batch_record   what a batch adds and removes, and the offsets that it reaches, as JSON (pure)
hourly_files   a task's Parquet files, one for each hour
files_source   the Spark source whose tasks write files and return one row for each
tables         how files and offsets are published together: parquet_table; delta_table and iceberg_table by committed_table
compaction     which small files to merge (pure), and the Spark source that merges them
"""
