"""Operations that decoders share to the letter. Each is an `nn.Module` whose docstring is its page in the atlas.

A docstring reads: one sentence; `Equation:` in LaTeX over the op's own ports and weights (`\\port{x}`, `\\out`,
`\\out{name}`, `\\param{weight}`, `\\const{eps}`); `Dtype:`; `Sources:`.
"""
