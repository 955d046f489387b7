"""`skyrocket console`, and the console that `skyrocket run` starts beside its broker."""
