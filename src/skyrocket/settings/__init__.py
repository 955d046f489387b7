"""Settings of a server: typed rows, the file that holds them, and changes at run time.

kinds         the kinds of values: how each is described, parsed and formatted
table         the rows of a server, and changes to them (pure)
server        the rows that every server has: limits for clients, and TLS
foreign_keys  keys of Apache's servers that have no effect here (pure)
file          the properties file
live          the current settings of a running server
requests      changes by an administrator's request
"""
