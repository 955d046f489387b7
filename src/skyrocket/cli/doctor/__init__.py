"""`skyrocket doctor`: the command, and how it shows what it found."""
