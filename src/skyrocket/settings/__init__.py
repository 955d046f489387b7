"""What a server can be told: typed rows, where they are read from, and how they change while it runs."""
