"""The nodes of the Llama map, and how an expression is looked for in text."""

ATTENTION = [
    *("q", "k", "v", "q_heads", "k_heads", "v_heads", "q_rotate", "k_rotate", "cache", "attend", "merge_heads", "o"),
    *(f"attend.{op}" for op in ("repeat_k", "repeat_v", "scores", "mask", "softmax", "mix")),
]
NODES = [
    *("", "embed", "rope", "rope.frequencies", "rope.table", "mask", "norm", "unembed", "logits"),
    *("block", "block.attention_norm", "block.attention", "block.attention_add", "block.ffn_norm"),
    *(f"block.attention.{op}" for op in ATTENTION),
    *("block.feed_forward", *(f"block.feed_forward.{op}" for op in ("gate", "up", "silu", "multiply", "down"))),
    "block.ffn_add",
]
TENSORS = ["block:in", "block:out", "block.attention_add:out", "rope.table:cos", ":tokens", ":positions"]


def stands_in(expression: str, text: str) -> bool:
    """Whether the pieces between the ellipses stand in the text, in order, whatever the white space."""
    flat, at = " ".join(text.split()), 0
    for piece in expression.split("…"):
        piece = " ".join(piece.split())
        found = flat.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
