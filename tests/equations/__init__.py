"""Every op's equation said again in NumPy, float64, from the equation's text and not from the module."""
