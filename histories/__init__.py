"""The record that everything else speaks about: operations, attempts, deaths and faults."""
