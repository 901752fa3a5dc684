"""The deterministic simulator: a plain event heap that drives the pure cores through faults."""
