"""The supervisor's own tests: decisions in virtual time, then real processes."""
