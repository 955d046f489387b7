"""What a server can be told: typed rows, where they are read from, and how they change while it runs.

kinds      what a value can be: its words, how it is read and shown
table      the rows of a server, and changes to them (pure)
file       the properties file that they are read from, and kept in
live       the settings as they are now
requests   changes by an administrator's request
"""
