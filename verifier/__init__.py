"""The harness behind the command `verify`: runs a scenario, records it, judges it, reports it."""
