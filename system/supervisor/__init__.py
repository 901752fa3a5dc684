"""Master, fork server and crash hand-back for a pool of workers."""
