"""skyrocket: Apache RocketMQ in Python. A nameserver, a broker, a client and a Spark pipeline that swap with Apache's."""

__version__ = "0.1.0"
