"""Bytes from outside: a cache directory, wheels fixed by hash, small files. Atomic, checked, never half-written."""
