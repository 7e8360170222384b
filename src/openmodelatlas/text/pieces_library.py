"""A SentencePiece vocabulary in the `tokenizers` library's form: joining by scores as a list of merges."""

from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers
from tokenizers import Tokenizer as Backend

from openmodelatlas.text.library import refused_as
from openmodelatlas.text.pieces import Pieces
from openmodelatlas.text.spelling import MARK
from openmodelatlas.text.tokenizer import Vocabulary


def library_form(pieces: Pieces, vocabulary: Vocabulary, where: str) -> Backend:
    """Every pair of pieces that makes a piece is a merge, the best score first. Of equal scores the library takes the
    merge that is listed first, SentencePiece the leftmost place: whoever writes this compares what comes out."""
    pairs = []
    for whole, number in pieces.plain.items():
        for at in range(1, len(whole)):
            left, right = whole[:at], whole[at:]
            if left in pieces.plain and right in pieces.plain:
                pairs.append((-pieces.scores[number], number, at, left, right))
    with refused_as("the vocabulary does not fit the library", where):
        model = models.BPE(
            vocab=dict(vocabulary.ids),
            merges=[(left, right) for *_, left, right in sorted(pairs)],
            unk_token=None if pieces.unknown is None else vocabulary.tokens[pieces.unknown],
            fuse_unk=True,
            byte_fallback=bool(pieces.byte),
        )
        backend = Backend(model)
    before: list[Any] = [normalizers.Prepend(MARK)] if pieces.space_at_start else []
    backend.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", MARK)])
    after: list[Any] = [decoders.Strip(" ", 1, 0)] if pieces.space_at_start else []
    undo = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), *after]
    backend.decoder = decoders.Sequence(undo)
    control = [vocabulary.tokens[number] for number in sorted(vocabulary.control)]
    backend.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in control if name])
    # Text has marks only after spaces have become marks.
    added = [vocabulary.tokens[number] for number in sorted(vocabulary.added)]
    backend.add_tokens([AddedToken(token, normalized=MARK in token) for token in added])
    return backend
