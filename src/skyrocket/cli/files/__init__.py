"""Commands that need no cluster: store directories and captured frames."""
