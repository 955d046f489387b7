"""Metrics and health of a server, over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever runs it."""
