"""The nameserver: brokers register their topics with it, and clients ask it for routes.

limits            every bound of its tables
errors            its typed errors
names             valid names of topics, brokers and clusters
topics            topic -> broker -> queues (pure)
deleted_routes    topics whose routes were deleted while a registration was under way (pure)
route_table       brokers, clusters, which brokers are alive, and routes (pure)
kv_table          namespace -> key -> value (pure)
settings          one typed row for each setting (pure)
*_requests        thin handlers; each module registers its request codes
nameserver        the process: settings in, a listening server out
"""
