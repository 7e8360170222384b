"""Weights in fewer bits, as the libraries keep them that made them: which layout it is, and its whole tensors."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from openmodelatlas.records.findings import finding
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.naming import quantization
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.packed.blocks import four_bits, mlx
from openmodelatlas.weights.packed.gptq import awq, gptq
from openmodelatlas.weights.packed.parts import Layout
from openmodelatlas.weights.packed.scaled import compressed, fp8, int8
from openmodelatlas.weights.settings import printable
from openmodelatlas.weights.view import View

Reader = Callable[[Opened, Mapping[str, Any]], Layout]
LAYOUTS: dict[str, tuple[Reader, ...]] = {
    "gptq": (gptq,),
    "awq": (awq,),
    "fp8": (fp8,),
    "compressed-tensors": (compressed,),
    "bitsandbytes": (four_bits, int8),
    "mlx": (mlx,),
}
UNREAD_FORMATS = ("nvfp4-pack-quantized", "marlin-24", "sparse-24-bitmask", "sparse-bitmask", "mxfp4-pack-quantized")


def unpacked(opened: Opened) -> Opened:
    """The checkpoint with a matrix in the place of its packed parts; findings for what does not fit, or is not read."""
    method, section = quantization(opened.header.metadata)
    if method is None:
        return opened
    settings = {
        key.removeprefix(f"{section}."): value
        for key, value in opened.header.metadata.items()
        if key.startswith(f"{section}.")
    }
    known = ", ".join(LAYOUTS)
    if method not in LAYOUTS or (why := _unread(method, settings)):
        found = shown(str(method)) if method not in LAYOUTS else why
        return View(
            opened, (), findings=[finding("configuration.quantization-unknown", section, expected=known, found=found)]
        )
    layouts = [read(opened, settings) for read in LAYOUTS[method]]
    made = list(itertools.chain.from_iterable(layout.shown for layout in layouts))
    findings = list(itertools.chain.from_iterable(layout.findings for layout in layouts))
    if not made and not findings:
        what = f"tensors packed as {method} packs them"
        findings = [finding("configuration.quantization", section, expected=what, found="none")]
    return View(
        opened,
        made,
        findings=findings,
        by_values=lambda: [flaw for layout in layouts for flaw in layout.by_values()],
    )


def _unread(method: str, settings: Mapping[str, Any]) -> str:
    """What of the layout is not read here; nothing if all is."""
    version, form, mode = settings.get("version", "gemm"), settings.get("format"), settings.get("mode", "affine")
    if method == "awq" and str(version).lower() != "gemm":
        return f"awq in the order of {printable(version)}"
    if method == "compressed-tensors" and form in UNREAD_FORMATS:
        return f"compressed-tensors in the format {form}"
    return f"mlx in the mode {printable(mode)}" if method == "mlx" and mode != "affine" else ""
