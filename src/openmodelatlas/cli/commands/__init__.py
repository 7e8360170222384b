"""One module a command: `HELP` (one line), `arguments(parser)`, `run(args) -> exit code`. The directory is the list."""
