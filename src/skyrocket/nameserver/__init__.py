"""The nameserver: brokers tell it which topics they have, everyone else asks it where they are.

limits            every bound of its tables, in one place
errors            what it cannot work with
names             which names of topics, brokers and clusters are taken
topics            topic -> broker -> queues (pure)
route_table       brokers, clusters, who is alive, and routes out of all that (pure)
kv_table          namespace -> key -> value (pure)
settings          one typed row for each setting (pure)
*_requests        thin handlers; each module registers its codes
nameserver        the process: settings in, a listening server out
"""
