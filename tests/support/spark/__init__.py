"""Spark's processes, jobs and streams, and jobs to be killed."""
