"""A switch that forwards every frame itself, so that each link can be told what to do with it."""
