"""The verifier killed at random moments, healed, and looked for whatever is left."""
