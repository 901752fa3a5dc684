"""The nemeses by family: what is known of each, and the act that it is made of."""
