from evidence_help import SOURCE, part, pin

from openmodelatlas.evidence import excerpts


def test_the_hash_ignores_trailing_white_space_and_line_ends() -> None:
    lines = excerpts.lines_of(b"a \r\n  b\t\nc")
    assert lines == ["a", "  b", "c"]
    assert excerpts.excerpt_hash(["a", "  b"]) == part("a\n  b\n", 1, 2).sha256
    assert excerpts.excerpt_hash(["a", "b"]) != part("a\n  b\n", 1, 2).sha256, "leading white space counts"


def test_only_a_line_feed_ends_a_line() -> None:
    assert len(excerpts.lines_of("a\x0cb\u2028c\nd".encode())) == 2


def test_same_moved_and_changed() -> None:
    own = pin("0" * 40, (3, 5), (9, 10))
    same = excerpts.read(own, SOURCE.encode())
    assert (same.status, same.found) == ("same", ((3, 5), (9, 10)))
    assert same.text == ("line 3\nline 4\nline 5", "line 9\nline 10")
    moved = excerpts.read(own, ("new\nnew\n" + SOURCE).encode())
    assert (moved.status, moved.found, moved.text) == ("moved", ((5, 7), (11, 12)), same.text)
    changed = excerpts.read(own, SOURCE.replace("line 9\n", "line nine\n").encode())
    assert (changed.status, changed.found, changed.text) == ("CHANGED", (), ())


def test_of_equal_texts_the_nearest_is_taken() -> None:
    lines = ["x", "y", "x", "y", "x"]
    assert excerpts.locate(part("x\n", 1, 1), lines) == (1, 1)
    moved = part("\n\n\nx\n", 4, 4)
    assert excerpts.locate(moved, lines) in ((3, 3), (5, 5))


def test_a_file_shorter_than_the_range_has_not_got_it() -> None:
    assert excerpts.locate(part(SOURCE, 1, 20), ["line 1"]) is None
