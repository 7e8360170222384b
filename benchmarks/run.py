"""Times that the project promises something about, as medians, beside a peer where there is one.

    python benchmarks/run.py [--repeat N]

Numbers of different machines or moments do not compare; ratios of one run do.
"""

import argparse
import dataclasses
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sparse
import torch

from openmodelatlas import models


def seconds(work: Callable[[], object], repeat: int) -> list[float]:
    """Wall time of each of `repeat` calls after one that does not count."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def python(code: str) -> str:
    """Run code in a process of its own and give what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def oma(*arguments: str) -> Callable[[], object]:
    """One `oma` command as a whole process."""
    command = [sys.executable, "-m", "openmodelatlas.cli.main", *arguments]
    return lambda: subprocess.run(command, capture_output=True, check=True)


def show(name: str, times: list[float], note: str = "") -> float:
    """One row; returns the median."""
    middle = statistics.median(times)
    print(f"{name:<52} {middle:8.3f} s  [{min(times):.3f} … {max(times):.3f}]  {note}", flush=True)
    return middle


PEAK = """
def peak():
    # Linux hands the parent's peak down through ru_maxrss; this one begins anew with the program.
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
"""
"""The most memory that a process has had, in kilobytes; read on Linux."""
DERIVE = PEAK + """
import time
from openmodelatlas import models
from openmodelatlas.trace.derive import derive
start = time.perf_counter()
graph = derive(models.find({name!r}))
print(time.perf_counter() - start, peak())
"""


def derivation(repeat: int) -> None:
    """The largest map at full depth, in fresh processes, import of torch left out."""
    for name in ("llama-3-8b", "llama-3.1-405b"):
        runs = [python(DERIVE.format(name=name)).split() for _ in range(repeat)]
        peak = max(int(kilobytes) for _, kilobytes in runs) / 1024
        show(f"derive {name}", [float(t) for t, _ in runs], f"peak {peak:.0f} MiB")


def checkpoint(repeat: int) -> None:
    """Opening a header, beside the reader of the `gguf` package on the same file."""
    import gguf

    from openmodelatlas.catalog.checkpoints import find, path_of
    from openmodelatlas.infer.checkpoint import load_checkpoint
    from openmodelatlas.infer.generate import generate
    from openmodelatlas.weights.reading.gguf import open_gguf

    path: Path = path_of(find("smollm2-135m-instruct"))

    def open_ours() -> None:
        with open_gguf(path):
            pass

    ours = show("open a GGUF header", seconds(open_ours, repeat))
    peer = show("  the same by the gguf package", seconds(lambda: gguf.GGUFReader(path), max(1, repeat // 3)))
    print(f"{'  ratio':<52} {peer / ours:8.1f} x")
    show("load to float32", seconds(lambda: load_checkpoint(path), max(1, repeat // 3)))
    loaded = load_checkpoint(path)
    tokens = 32
    text = loaded.tokenizer.encode("The capital of France is")
    times = seconds(lambda: list(generate(loaded.model, text, max_tokens=tokens)), max(1, repeat // 3))
    print(f"{'decode, float32, explicit attention':<52} {tokens / statistics.median(times):8.1f} tokens/s")


VERIFY = PEAK + """
import contextlib, io, time
start = time.perf_counter()
from openmodelatlas.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["verify", {path!r}])
print(time.perf_counter() - start, peak())
"""


def large(repeat: int) -> None:
    """`oma verify` on headers of the largest sizes, whose files take no room on the disk; as whole processes."""
    mixed = models.find("mixtral-8x22b")
    many = dataclasses.replace(mixed, config=dataclasses.replace(mixed.config, num_local_experts=60))
    for name, variant, shards in (("llama-3.1-405b", models.find("llama-3.1-405b"), 191), ("60 experts", many, 60)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "checkpoint"
            size, count = sparse.huggingface_folder(path, variant, shards)
            runs = [python(VERIFY.format(path=str(path))).split() for _ in range(repeat)]
        peak = max(int(kilobytes) for _, kilobytes in runs) / 1024
        what = f"verify {name}: {count:,} tensors, {shards} files"
        show(what, [float(t) for t, _ in runs], f"{size / 1e9:.0f} GB apparent, peak {peak:.0f} MiB")


def comparison(repeat: int) -> None:
    """Reading every value, and comparing every value, of the real checkpoint."""
    from openmodelatlas.catalog.checkpoints import find, path_of

    path = str(path_of(find("smollm2-135m-instruct")))
    show("verify --values, 98 MB of Q4_1", seconds(oma("verify", path, "--values"), repeat))
    show("verify --against itself", seconds(oma("verify", path, "--against", path), repeat))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    load = os.getloadavg()[0]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(f"{machine}, Python {platform.python_version()}, torch {torch.__version__}")
    print(f"load before the run {load:.2f}: a busy machine makes these numbers worthless" if load > 0.5 else "quiet")
    show("oma --help", seconds(oma("--help"), repeat))
    show("oma list", seconds(oma("list"), repeat))
    show("oma show llama-3.1-8b block:out (cached)", seconds(oma("show", "llama-3.1-8b", "block:out"), repeat))
    show("oma diff llama-3-8b llama-3.1-8b (cached)", seconds(oma("diff", "llama-3-8b", "llama-3.1-8b"), repeat))
    derivation(repeat)
    checkpoint(repeat)
    large(repeat)
    comparison(max(1, repeat // 2))


if __name__ == "__main__":
    main()
