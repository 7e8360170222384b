"""Wrong versions of the definition, the numbers, the equations and the pins, and the checks that must notice each."""
