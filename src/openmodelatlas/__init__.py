"""Open Model Atlas."""
