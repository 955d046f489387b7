"""The web console: pages about a RocketMQ cluster, ours or Apache's, rendered here and served over HTTP.

    browser ──HTTP──▶ application: host, session, role, token ──▶ pages/: ask the cluster ──▶ templates/: HTML
                                                                     └── skyrocket.client.Admin ──▶ nameservers, brokers

`application` has the table of all routes. A page is a function from a `Visit` to an `Answer`. It reaches the cluster through the
client alone. Whatever a page shows is escaped by the template engine, and the browser is told to run no script but ours.
"""
