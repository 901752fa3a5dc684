"""The replicated state machine and the planner that stamps time and mints ids. Pure."""
