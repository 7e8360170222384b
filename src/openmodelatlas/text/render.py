"""Render chat templates, as a process of its own: jobs in JSON on stdin, a text or an error for each in JSON on
stdout."""

import json
import sys
from typing import Any, NoReturn

MEMORY = 512 << 20  # bytes of address space
SECONDS = 10  # of processor time


def limit() -> None:
    """Give up memory and time beyond a little, where the system can hold a process to it."""
    try:
        import resource
    except ImportError:  # Windows: the caller's timeout remains
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def render(job: dict[str, Any]) -> str:
    """The text of a job; whatever the template raises."""
    from jinja2.exceptions import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: object) -> NoReturn:
        raise TemplateError(str(message))

    # Block trimming as in transformers, which is what templates are written for.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = refuse
    template = environment.from_string(job["template"])
    parts, length = [], 0
    for part in template.generate(
        **job["variables"],
        messages=job["messages"],
        bos_token=job["bos_token"],
        eos_token=job["eos_token"],
        add_generation_prompt=job["generation"],
    ):
        parts.append(part)
        length += len(part)
        if length > job["longest"]:
            raise TemplateError(f"longer than {job['longest']} characters")
    return "".join(parts)


def main() -> None:
    """All jobs, each by itself."""
    jobs = json.load(sys.stdin.buffer)
    limit()
    json.dump([answer(job) for job in jobs], sys.stdout)


def answer(job: dict[str, Any]) -> dict[str, str | None]:
    """The text of a job, or why there is none."""
    try:
        return {"text": render(job), "error": None}
    except Exception as error:  # anything that a stranger's template can raise
        return {"text": None, "error": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    main()
