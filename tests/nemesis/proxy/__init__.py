"""Faults on real child processes."""
