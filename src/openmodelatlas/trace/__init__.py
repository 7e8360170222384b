"""Derive a graph from a definition on fake tensors; capture values on real ones; locate nodes in a reference."""
