"""Decisions of the supervisor, pure: exits, circuit, restart schedule, renewal schedule, hand-back."""
