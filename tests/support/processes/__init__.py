"""Servers as processes of their own, what they need of the machine, and the load on them."""
