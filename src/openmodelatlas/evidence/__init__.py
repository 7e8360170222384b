"""Pins: find the text that a claim stands on, and say whether it is still the same."""
