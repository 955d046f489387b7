"""Apache's software: its packages, its processes on loopback, and Java programs over its client."""
