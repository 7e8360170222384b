"""One statement for each op: its equation as the docstring prints it, and the same in plain float64 NumPy.

A statement is written from the text above it. It sees the op's ports, parameters and constants by name, nothing of its
code. Where the docstring says that something is rounded on the way, the statement rounds there with `r`; the result is
rounded to the stated dtype by whoever compares.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Ports = Mapping[str, Array]
Round = Callable[[Array], Array]


@dataclass(frozen=True)
class Statement:
    """An equation in two forms. `dtype` is what its results have: `float32`, or the port whose dtype they take (`=x`);
    a result of whole numbers stays what it is. A `composite` rounds inside, too, where its parts round."""

    equation: str
    dtype: str
    composite: bool
    compute: Callable[[Ports, Ports, Mapping[str, Any], Round], Any]


STATEMENTS: dict[tuple[str, str], Statement] = {}
"""By class name and equation: two families may have a class of one name with one equation, or with two."""


def states(ops: str, equation: str, *, dtype: str, composite: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Enter a statement of every class named."""
    text = " ".join(equation.split())

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        STATEMENTS.update({(op, text): Statement(text, dtype, composite, function) for op in ops.split()})
        return function

    return enter


def single(values: Array) -> Array:
    """Rounded to float32, in float64."""
    return values.astype(np.float32).astype(np.float64)


# --- tables and linear maps -------------------------------------------------------------------------------------------


@states("Embedding", r"\out = \param{weight}\left[\port{tokens}\right]", dtype="=weight")
def embedding(p: Ports, w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return np.stack([np.stack([w["weight"][t] for t in row]) for row in p["tokens"]])


@states("Linear Unembed TiedUnembed", r"\out = \port{x}\,\param{weight}^{\top}", dtype="=x")
def linear(p: Ports, w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return np.einsum("...i,oi->...o", p["x"], w["weight"])


@states(
    "ExpertLinear",
    r"\out_{t,a} = \port{x}_{t,a}\,\param{weight}_{\port{experts}_{t,a}}^{\top}",
    dtype="=x",
)
def expert_linear(p: Ports, w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    out = np.zeros((*p["x"].shape[:3], w["weight"].shape[1]))
    for b, t, a in np.ndindex(*p["experts"].shape):
        out[b, t, a] = w["weight"][p["experts"][b, t, a]] @ p["x"][b, t, a]
    return out


@states("EmbeddingScale", r"\out = \port{x}\,\sqrt{\const{width}}", dtype="=x")
def embedding_scale(p: Ports, _w: Ports, c: Mapping[str, Any], r: Round) -> Array:
    return p["x"] * r(math.sqrt(c["width"]))


# --- element by element -----------------------------------------------------------------------------------------------


@states("SiLU", r"\out = \frac{\port{x}}{1 + \exp\left(-\port{x}\right)}", dtype="=x")
def silu(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return p["x"] / (1 + np.exp(-p["x"]))


@states(
    "GELU",
    r"""\out = \frac{\port{x}}{2}\left(1 + \tanh\left(\sqrt{\tfrac{2}{\pi}}\left(\port{x} +
    0.044715\,\port{x}^{3}\right)\right)\right)""",
    dtype="=x",
)
def gelu(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    x = p["x"]
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@states("Multiply", r"\out = \port{gate} \odot \port{up}", dtype="=gate")
def multiply(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return p["gate"] * p["up"]


@states("ResidualAdd", r"\out = \port{x} + \port{update}", dtype="=x")
def residual_add(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return p["x"] + p["update"]


@states("Upcast", r"\out = \operatorname{float32}\left(\port{x}\right)", dtype="float32")
def upcast(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return p["x"]


# --- norm -------------------------------------------------------------------------------------------------------------


@states(
    "RMSNorm",
    r"""\out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;\param{weight}_i""",
    dtype="=x",
)
def rms_norm(p: Ports, w: Ports, c: Mapping[str, Any], r: Round) -> Array:
    x = p["x"]
    mean = (x * x).sum(-1, keepdims=True) / x.shape[-1]
    return r(x / np.sqrt(mean + c["eps"])) * w["weight"]


@states(
    "ZeroCenteredRMSNorm",
    r"""\out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;
    \left(1 + \param{weight}_i\right)""",
    dtype="=x",
)
def zero_centered_rms_norm(p: Ports, w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    x = p["x"]
    mean = (x * x).sum(-1, keepdims=True) / x.shape[-1]
    return x / np.sqrt(mean + c["eps"]) * (1 + w["weight"])


@states(
    "FloatGainRMSNorm",
    r"""\out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;\param{weight}_i""",
    dtype="=x",
)
def float_gain_rms_norm(p: Ports, w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    x = p["x"]
    size = np.sqrt(np.einsum("...j,...j->...", x, x) / x.shape[-1] + c["eps"])
    return w["weight"] * x / size[..., None]


# --- rotary positions -------------------------------------------------------------------------------------------------


@states("RopeFrequencies", r"\out_i = \const{theta}^{-2i/\const{width}}", dtype="float32")
def rope_frequencies(_p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    return np.array([c["theta"] ** (-2 * i / c["width"]) for i in range(c["width"] // 2)])


@states(
    "RopeScale",
    r"""\out_i = \begin{cases} \port{frequencies}_i & \lambda_i < \const{original_context} / \const{high_freq_factor} \\
    \port{frequencies}_i / \const{factor} & \lambda_i > \const{original_context} / \const{low_freq_factor} \\
    (1 - \alpha_i)\,\port{frequencies}_i / \const{factor} + \alpha_i\,\port{frequencies}_i & \text{otherwise}
    \end{cases}
    \quad \lambda_i = \frac{2\pi}{\port{frequencies}_i}
    \quad \alpha_i = \frac{\const{original_context}/\lambda_i - \const{low_freq_factor}}{\const{high_freq_factor} -
    \const{low_freq_factor}}""",
    dtype="float32",
)
def rope_scale(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    out = []
    for f in p["frequencies"]:
        wavelength = 2 * math.pi / f
        alpha = c["original_context"] / wavelength - c["low_freq_factor"]
        alpha /= c["high_freq_factor"] - c["low_freq_factor"]
        if wavelength < c["original_context"] / c["high_freq_factor"]:
            out.append(f)
        elif wavelength > c["original_context"] / c["low_freq_factor"]:
            out.append(f / c["factor"])
        else:
            out.append((1 - alpha) * f / c["factor"] + alpha * f)
    return np.array(out)


@states("RopeLinearScale", r"\out = \frac{\port{frequencies}}{\const{factor}}", dtype="float32")
def rope_linear_scale(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    return p["frequencies"] / c["factor"]


@states(
    "RopeTable",
    r"""\out{cos}_{t,i} = \cos\left(\port{positions}_t\,\port{frequencies}_i\right) \qquad
    \out{sin}_{t,i} = \sin\left(\port{positions}_t\,\port{frequencies}_i\right)""",
    dtype="float32",
)
def rope_table(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> dict[str, Array]:
    # Float32 as stated: at far positions the rounding of an angle is larger than any other error here.
    angle = single(p["positions"][..., None] * p["frequencies"])
    return {"cos": np.cos(angle), "sin": np.sin(angle)}


@states(
    "Rotate",
    r"""\begin{aligned}
    \out_{2i} &= \port{x}_{2i}\,\port{rope.cos}_i - \port{x}_{2i+1}\,\port{rope.sin}_i \\
    \out_{2i+1} &= \port{x}_{2i}\,\port{rope.sin}_i + \port{x}_{2i+1}\,\port{rope.cos}_i
    \end{aligned}""",
    dtype="=x",
)
def rotate(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    out = np.empty_like(p["x"])
    for h in range(out.shape[2]):
        for i in range(out.shape[3] // 2):
            even, odd = p["x"][:, :, h, 2 * i], p["x"][:, :, h, 2 * i + 1]
            cos, sin = p["rope.cos"][:, :, i], p["rope.sin"][:, :, i]
            out[:, :, h, 2 * i] = even * cos - odd * sin
            out[:, :, h, 2 * i + 1] = even * sin + odd * cos
    return out


@states(
    "RotateHalves",
    r"""\begin{aligned}
    \out_{i} &= \port{x}_{i}\,\port{rope.cos}_i - \port{x}_{i+E/2}\,\port{rope.sin}_i \\
    \out_{i+E/2} &= \port{x}_{i+E/2}\,\port{rope.cos}_i + \port{x}_{i}\,\port{rope.sin}_i
    \end{aligned}""",
    dtype="=x",
)
def rotate_halves(p: Ports, _w: Ports, _c: Mapping[str, Any], r: Round) -> Array:
    out = np.empty_like(p["x"])
    half = out.shape[3] // 2
    for h, i in np.ndindex(out.shape[2], half):
        first, second = p["x"][:, :, h, i], p["x"][:, :, h, i + half]
        cos, sin = r(p["rope.cos"][:, :, i]), r(p["rope.sin"][:, :, i])
        out[:, :, h, i] = r(first * cos) - r(second * sin)
        out[:, :, h, i + half] = r(second * cos) + r(first * sin)
    return out


@states(
    "FloatRotateHalves",
    r"""\begin{aligned}
    \out_{i} &= \port{x}_{i}\,\port{rope.cos}_i - \port{x}_{i+E/2}\,\port{rope.sin}_i \\
    \out_{i+E/2} &= \port{x}_{i+E/2}\,\port{rope.cos}_i + \port{x}_{i}\,\port{rope.sin}_i
    \end{aligned}""",
    dtype="=x",
)
def float_rotate_halves(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    # A pair as one complex number, turned by another; nothing is rounded on the way.
    half = p["x"].shape[3] // 2
    turned = (p["x"][..., :half] + 1j * p["x"][..., half:]) * (p["rope.cos"] + 1j * p["rope.sin"])[:, :, None]
    return np.concatenate([turned.real, turned.imag], -1)


# --- heads ------------------------------------------------------------------------------------------------------------


@states("SplitHeads", r"\out_{h,e} = \port{x}_{h \cdot \const{head_width} + e}", dtype="=x")
def split_heads(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    x, e = p["x"], c["head_width"]
    return np.stack([x[..., h * e : (h + 1) * e] for h in range(x.shape[-1] // e)], -2)


@states("RepeatHeads", r"\out_{h} = \port{x}_{\lfloor h / \const{group} \rfloor}", dtype="=x")
def repeat_heads(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    x, group = p["x"], c["group"]
    return np.stack([x[:, :, h // group] for h in range(x.shape[2] * group)], 2)


@states("MergeHeads", r"\out_{h E + e} = \port{x}_{h,e}", dtype="=x")
def merge_heads(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return np.concatenate([p["x"][..., h, :] for h in range(p["x"].shape[-2])], -1)


# --- attention --------------------------------------------------------------------------------------------------------


@states(
    "CausalMask",
    r"""\out_{t,s} = \begin{cases} 0 & 0 \le \port{key_positions}_s \le \port{positions}_t \\ -\infty & \text{otherwise}
    \end{cases}""",
    dtype="float32",
)
def causal_mask(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    query, key = p["positions"], p["key_positions"]
    out = np.full((len(query), 1, query.shape[1], key.shape[1]), -np.inf)
    for b, t, s in np.ndindex(len(query), query.shape[1], key.shape[1]):
        # The sentence beside the equation: a padding row sees padding only.
        padding = query[b, t] < 0 and key[b, s] < 0
        if 0 <= key[b, s] <= query[b, t] or padding:
            out[b, 0, t, s] = 0
    return out


@states(
    "WindowMask",
    r"""\out_{t,s} = \begin{cases} 0 & \port{positions}_t - \const{window} < \port{key_positions}_s \le
    \port{positions}_t \text{ and } \port{key_positions}_s \ge 0 \\ -\infty & \text{otherwise} \end{cases}""",
    dtype="float32",
)
def window_mask(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    query, key = p["positions"], p["key_positions"]
    out = np.full((len(query), 1, query.shape[1], key.shape[1]), -np.inf)
    for b, t, s in np.ndindex(len(query), query.shape[1], key.shape[1]):
        # The sentence beside the equation: a padding row sees padding only.
        padding = query[b, t] < 0 and key[b, s] < 0
        near = query[b, t] - c["window"] < key[b, s] <= query[b, t]
        if (near and key[b, s] >= 0) or padding:
            out[b, 0, t, s] = 0
    return out


@states("Scores", r"\out_{h,t,s} = \frac{\port{q}_{t,h} \cdot \port{k}_{s,h}}{\sqrt{E}}", dtype="=q")
def scores(p: Ports, _w: Ports, _c: Mapping[str, Any], r: Round) -> Array:
    q, k = p["q"].transpose(0, 2, 1, 3), p["k"].transpose(0, 2, 3, 1)
    return r(q @ k) / math.sqrt(p["q"].shape[-1])


@states(
    "ScaledScores",
    r"\out_{h,t,s} = \frac{\port{q}_{t,h} \cdot \port{k}_{s,h}}{\sqrt{\const{query_pre_attn_scalar}}}",
    dtype="=q",
)
def scaled_scores(p: Ports, _w: Ports, c: Mapping[str, Any], r: Round) -> Array:
    q, k = p["q"].transpose(0, 2, 1, 3), p["k"].transpose(0, 2, 3, 1)
    return r(q @ k) / math.sqrt(c["query_pre_attn_scalar"])


@states("AddMask", r"\out = \port{scores} + \port{mask}", dtype="=scores")
def add_mask(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return p["scores"] + p["mask"]


@states(
    "Softmax",
    r"""\out_{h,t,s} = \frac{\exp\left(\port{scores}_{h,t,s}\right)}{\sum_{s'}
    \exp\left(\port{scores}_{h,t,s'}\right)}""",
    dtype="=scores",
)
def softmax(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    exponential = np.exp(p["scores"])
    return exponential / exponential.sum(-1, keepdims=True)


@states("Mix", r"\out_{t,h} = \sum_{s} \port{weights}_{h,t,s}\,\port{v}_{s,h}", dtype="=weights")
def mix(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    return (p["weights"] @ p["v"].transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


def attended(p: Ports, scale: float) -> Array:
    """Each head's queries against the keys of its group."""
    q, mask = p["q"], p["mask"][:, 0]
    heads, kv_heads, out = q.shape[2], p["k"].shape[2], np.empty_like(q)
    for h in range(heads):
        k, v = (p[name][:, :, h // (heads // kv_heads)] for name in "kv")
        weights = np.exp(q[:, :, h] @ k.transpose(0, 2, 1) * scale + mask)
        out[:, :, h] = weights / weights.sum(-1, keepdims=True) @ v
    return out


@states(
    "Attend FusedAttend",
    r"\out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{E}} + \port{mask}\right)\port{v}",
    dtype="=q",
    composite=True,
)
def attend(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    # The sentence beside the fused form's equation: a scale takes the place of one over the root.
    return attended(p, c.get("scale") or 1 / math.sqrt(p["q"].shape[3]))


@states(
    "ScaledAttend",
    r"""\out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{\const{query_pre_attn_scalar}}} +
    \port{mask}\right)\port{v}""",
    dtype="=q",
    composite=True,
)
def scaled_attend(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    return attended(p, 1 / math.sqrt(c["query_pre_attn_scalar"]))


@states(
    "UpdateCache",
    r"""\out{keys} = \port{cache.k}\left[\port{slots} \leftarrow \port{k}\right] \qquad
    \out{values} = \port{cache.v}\left[\port{slots} \leftarrow \port{v}\right]""",
    dtype="=k",
)
def update_cache(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> dict[str, Array]:
    if "cache.k" not in p:
        return {"keys": p["k"], "values": p["v"]}
    out = {}
    for port, new, old in (("keys", "k", "cache.k"), ("values", "v", "cache.v")):
        out[port] = p[old].copy()
        for i, slot in enumerate(p["slots"]):
            out[port][:, slot] = p[new][:, i]
    return out


# --- feed-forward -----------------------------------------------------------------------------------------------------


@states(
    "FeedForward",
    r"""\out = \left(\operatorname{SiLU}\left(\port{x}\,\param{gate.weight}^{\top}\right) \odot
    \port{x}\,\param{up.weight}^{\top}\right)\param{down.weight}^{\top}""",
    dtype="=x",
    composite=True,
)
def feed_forward(p: Ports, w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    gate = p["x"] @ w["gate.weight"].T
    return (gate / (1 + np.exp(-gate)) * (p["x"] @ w["up.weight"].T)) @ w["down.weight"].T


@states(
    "FeedForward",
    r"""\out = \left(\operatorname{GELU}\left(\port{x}\,\param{gate.weight}^{\top}\right) \odot
    \port{x}\,\param{up.weight}^{\top}\right)\param{down.weight}^{\top}""",
    dtype="=x",
    composite=True,
)
def gelu_feed_forward(p: Ports, w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    gate = p["x"] @ w["gate.weight"].T
    share = (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) / 2
    return (gate * share * (p["x"] @ w["up.weight"].T)) @ w["down.weight"].T


# --- experts ----------------------------------------------------------------------------------------------------------


@states(
    "ChooseExperts",
    r"""\out{experts}_t = \operatorname{top}_{\const{active}}\left(\port{router}_t\right) \qquad
    \out{scores}_{t,a} = \port{router}_{t,\,\out{experts}_{t,a}}""",
    dtype="=router",
)
def choose_experts(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> dict[str, Array]:
    experts = np.argsort(-p["router"], -1, kind="stable")[..., : c["active"]]
    return {"experts": experts, "scores": np.take_along_axis(p["router"], experts, -1)}


@states(
    "ExpertWeights",
    r"\out_{t,a} = \frac{\exp\left(\port{scores}_{t,a}\right)}{\sum_{a'} \exp\left(\port{scores}_{t,a'}\right)}",
    dtype="float32",
)
def expert_weights(p: Ports, _w: Ports, _c: Mapping[str, Any], _r: Round) -> Array:
    exponential = np.exp(p["scores"])
    return exponential / exponential.sum(-1, keepdims=True)


@states("Dispatch", r"\out_{t,a} = \port{x}_t \qquad a < \const{active}", dtype="=x")
def dispatch(p: Ports, _w: Ports, c: Mapping[str, Any], _r: Round) -> Array:
    return np.stack([p["x"] for _ in range(c["active"])], 2)


@states("Combine", r"\out_t = \sum_{a} \port{weights}_{t,a}\,\port{x}_{t,a}", dtype="=x")
def combine(p: Ports, _w: Ports, _c: Mapping[str, Any], r: Round) -> Array:
    return r(p["weights"][..., None] * p["x"]).sum(2)
