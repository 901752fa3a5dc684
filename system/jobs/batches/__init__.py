"""Batches: jobs that are counted together, with what is called when they are done."""
