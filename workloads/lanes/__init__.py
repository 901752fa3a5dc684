"""Failure lanes: a job mix, one fault at an observed moment, and what must come of it."""
