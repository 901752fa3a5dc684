"""Faults: their plan, how they are applied, how they are proved to bite, and how they heal."""
