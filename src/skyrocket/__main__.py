"""`python -m skyrocket` is the command `skyrocket`."""

from skyrocket.cli.main import app

app(prog_name="skyrocket")
