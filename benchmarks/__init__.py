"""Measurements, each beside its reference in the same run: `python -m benchmarks.NAME [--json] [--quick]`."""
