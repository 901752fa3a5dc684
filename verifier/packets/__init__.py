"""Captured traffic, read back: which messages went where around a fault or an operation."""
