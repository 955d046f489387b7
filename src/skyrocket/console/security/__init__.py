"""Who may use the console: users and passwords, sessions and their end, allowed hosts, how often passwords may be tried. Pure."""
