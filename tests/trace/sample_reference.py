"""A reference as a user might bring one: the same computation, written another way. A comment names each line's node.

Read by the tests of `oma locate`; nothing imports it.
"""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    norm_eps: float
    rope_theta: float = 1.0


class Norm(nn.Module):
    def __init__(self, s: Settings) -> None:
        super().__init__()
        self.eps, self.weight = s.norm_eps, nn.Parameter(torch.ones(s.dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = (x**2).mean(-1, keepdim=True)
        x = x / (size + self.eps).sqrt()
        return self.weight * x  # block.attention_norm block.ffn_norm norm


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    pairs = [a * cos - b * sin, a * sin + b * cos]
    turned = torch.stack(pairs, dim=-1)  # block.attention.q_rotate block.attention.k_rotate
    return turned.reshape(x.shape)


class Attention(nn.Module):
    def __init__(self, s: Settings) -> None:
        super().__init__()
        self.wide, self.group = s.dim // s.n_heads, s.n_heads // s.n_kv_heads
        self.wq = nn.Linear(s.dim, s.n_heads * self.wide, bias=False)
        self.wk = nn.Linear(s.dim, s.n_kv_heads * self.wide, bias=False)
        self.wv = nn.Linear(s.dim, s.n_kv_heads * self.wide, bias=False)
        self.wo = nn.Linear(s.n_heads * self.wide, s.dim, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q = self.wq(x)  # block.attention.q
        k = self.wk(x)  # block.attention.k
        v = self.wv(x)  # block.attention.v
        q = q.view(b, t, -1, self.wide)  # block.attention.q_heads
        k = k.view(b, t, -1, self.wide)  # block.attention.k_heads
        v = v.view(b, t, -1, self.wide)  # block.attention.v_heads
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k = k.repeat_interleave(self.group, 2)  # block.attention.attend.repeat_k
        v = v.repeat_interleave(self.group, 2)  # block.attention.attend.repeat_v
        near = q.transpose(1, 2) @ k.permute(0, 2, 3, 1)
        near = near / self.wide**0.5  # block.attention.attend.scores
        near = near + mask  # block.attention.attend.mask
        near = near.exp() / near.exp().sum(-1, keepdim=True)  # block.attention.attend.softmax
        mixed = near @ v.transpose(1, 2)  # block.attention.attend.mix block.attention.attend
        mixed = mixed.transpose(1, 2).reshape(b, t, -1)  # block.attention.merge_heads
        return self.wo(mixed)  # block.attention.o block.attention


class FeedForward(nn.Module):
    def __init__(self, s: Settings) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(s.dim, 112, bias=False), nn.Linear(s.dim, 112, bias=False)
        self.w2 = nn.Linear(112, s.dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.w1(x)  # block.feed_forward.gate
        gate = gate * gate.sigmoid()  # block.feed_forward.silu
        up = self.w3(x)  # block.feed_forward.up
        both = gate * up  # block.feed_forward.multiply
        return self.w2(both)  # block.feed_forward.down block.feed_forward


class Block(nn.Module):
    def __init__(self, s: Settings) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = Norm(s), Norm(s)
        self.attention, self.feed_forward = Attention(s), FeedForward(s)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        update = self.attention(self.attention_norm(x), cos, sin, mask)
        x = x + update  # block.attention_add
        return x + self.feed_forward(self.ffn_norm(x))  # block.ffn_add block


class Decoder(nn.Module):
    def __init__(self, s: Settings) -> None:
        super().__init__()
        self.s = s
        self.tok_embeddings = nn.Embedding(s.vocab_size, s.dim)
        self.layers = nn.ModuleList(Block(s) for _ in range(s.n_layers))
        self.norm, self.output = Norm(s), nn.Linear(s.dim, s.vocab_size, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(tokens)  # embed
        wide, t = self.s.dim // self.s.n_heads, tokens.shape[1]
        speed = self.s.rope_theta ** -(torch.arange(0, wide, 2) / wide)  # rope.frequencies
        angle = torch.arange(t)[:, None, None] * speed
        cos = angle.cos()  # rope.table rope
        sin = angle.sin()  # rope.table rope
        mask = torch.full((t, t), float("-inf")).triu(1)  # mask
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.output(self.norm(x)).float()  # unembed logits
