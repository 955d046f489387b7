"""Who may use the console: users and passwords, signed sessions, allowed hosts, and how often passwords may be tried. Pure."""
