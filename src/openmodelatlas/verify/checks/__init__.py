"""One module a check of a catalogue model. The directory is the list.

A check module has `TITLE` (one line), `TIER`, `applies(model) -> str | None` (None when it applies, else the reason why
not, for the matrix), and `run(model, progress) -> VerificationRecord` (`model` is the catalogue's record).
"""
