"""A load generator that costs little, and the figures that it gathers."""
