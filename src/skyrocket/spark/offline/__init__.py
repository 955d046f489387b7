"""Store directories as a Spark source: what to read, how it is divided among tasks, and the reading."""
