"""Access control of a broker: the guard before every handler, the file of users and rules, and their requests."""
