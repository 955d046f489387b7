"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Machines are small and noisy: no test fails because it took long. In CI the examples are the same every time.
settings.register_profile("skyrocket", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("skyrocket")
