"""`make bench` and `make bench-quick`: brokers under the loads that real clients make, in turns, on one machine.

    __main__     the commands: full, quick, render
    loads        the table of loads, and bars: what each must reach beside Apache's broker
    servers      our broker, Apache's and Kafka's as processes; which of them run is decided by `turns`
    generator    the load generator in C (bench/loadgen), java_programs and kafka_client: the other sources of load
    turns        measures one load on all servers in turns; lifecycle: start, memory, recovery
    record       what was measured, as JSON; tables, charts and document render it, comparison judges it

Measuring writes a record, and rendering reads one. So tables and charts can be changed and tested without measuring again.
"""
