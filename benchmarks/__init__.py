"""Figures, measured: each module has a `main()` that prints what it measured and how."""
