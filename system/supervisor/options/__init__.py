"""The supervisor's options: from a file, the environment and flags to a checked configuration."""
