"""The consensus core, pure: events and a time go in, effects come out."""
