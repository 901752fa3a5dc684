"""History in, verdict out. Checkers never import the system whose runs they judge."""
