"""What is known of releases, models, references and checkpoints: TOML files, and the records they become.

The directory is the registry: every file of `releases`, `references` and `checkpoints` is one entry.
"""
