"""The command line. Each command is a module of `commands`; it imports its room inside itself."""
