"""The durable log: checksummed segments, group commit, recovery that refuses to guess."""
