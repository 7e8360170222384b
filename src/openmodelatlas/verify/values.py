"""The check of a checkpoint's numbers: every tensor is read once."""

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.opened import Opened


def check_values(opened: Opened, progress: Progress) -> Outcome:
    """All of them must be finite."""
    findings, done = [], 0
    total = sum(tensor.bytes for tensor in opened.header.tensors)
    for tensor in opened.header.tensors:
        try:
            values = opened.values(tensor.name)
        except CheckpointError as error:
            findings.append(of_error(error, "values.unreadable", tensor.name))
        else:
            broken = values.numel() - int(values.isfinite().sum())
            if broken:
                found = f"{broken} of {values.numel()} are not"
                findings.append(finding("values.not-finite", tensor.name, expected="finite numbers", found=found))
        done += tensor.bytes
        progress("checking values", done, total)
    return outcome("values", f"{len(opened.header.tensors)} tensors read", findings)
