"""Other people's code, run beside ours: each reference in a process of its own, behind an adapter that lists its shims.

An adapter is a module with `answer(request, scratch) -> Answer`. It runs in the child (`serve`), is handed one request
(`exchange`), and imports nothing that computes here: neither the definition nor its parts. The parent's side is
`worker`.
"""
