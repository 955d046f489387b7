"""Facts and rules of a cluster: nameservers, brokers, topics, groups and replicas."""
