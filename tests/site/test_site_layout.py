"""Diagrams: nothing overlaps, no wire runs through a box, the trunk is straight, the same map gives one picture."""

from itertools import combinations, pairwise

import made_site
import pytest

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.build import foldings
from openmodelatlas.site.diagram import Pen, draw
from openmodelatlas.site.layout import Placed, lay_out
from openmodelatlas.site.scopes import IN, OUT, STACK, scope_of, stream
from openmodelatlas.site.words import file_of

Rect = tuple[float, float, float, float]


def cases(graph: Graph) -> list[tuple[str, frozenset[str]]]:
    """Every scope on its own, and every way in which the model's and each block's picture can be open."""
    alone = [(node.id, frozenset[str]()) for node in graph.nodes if node.children]
    scopes = ("", *(region.name for region in graph.regions))
    return alone + [(scope, opened) for scope in scopes for opened in foldings(graph, scope)]


def scopes(placed: Placed) -> list[Placed]:
    """A placed scope and all that are open in it."""
    return [placed, *(inner for box in placed.boxes if box.inside for inner in scopes(box.inside))]


def rects(placed: Placed) -> list[tuple[str, Rect]]:
    """Boxes, and the room of their pills."""
    found = []
    for box in placed.boxes:
        found.append((box.node.id, (box.x, box.y, box.x + box.w, box.y + box.h)))
        for named in box.stack.names if box.stack else ():
            assert named.x + named.w + named.pills_width <= box.w
            assert named.y >= 0
            assert named.y + named.h <= box.h
        if box.all_pills:
            found.append(
                ("pills of " + box.node.id, (box.x + box.w, box.y, box.x + box.w + box.pills_width, box.y + box.h))
            )
    return found


@pytest.fixture(scope="module", params=made_site.ALL)
def graph(request: pytest.FixtureRequest, all_graphs: dict[str, Graph]) -> Graph:
    """Each map in turn."""
    return all_graphs[request.param]


def test_no_boxes_overlap(graph: Graph) -> None:
    for name, opened in cases(graph):
        for placed in scopes(lay_out(graph, name, opened)):
            for (a, r), (b, s) in combinations(rects(placed), 2):
                apart = r[2] <= s[0] or s[2] <= r[0] or r[3] <= s[1] or s[3] <= r[1]
                assert apart, f"{name} {sorted(opened)}: {a} over {b}"


def test_all_is_inside_the_frame(graph: Graph) -> None:
    for name, opened in cases(graph):
        for placed in scopes(lay_out(graph, name, opened)):
            for what, (left, top, right, bottom) in rects(placed):
                assert min(left, top) >= 0, what
                assert right <= placed.w, what
                assert bottom <= placed.h, what


def test_no_wire_runs_through_a_box(graph: Graph) -> None:
    for name, opened in cases(graph):
        for placed in scopes(lay_out(graph, name, opened)):
            for wire in placed.wires:
                for _, points in wire.paths:
                    for a, b in pairwise(points):
                        low, high = (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))
                        for what, (left, top, right, bottom) in rects(placed):
                            hit = (
                                low[0] < right - 1 and high[0] > left + 1 and low[1] < bottom - 1 and high[1] > top + 1
                            )
                            assert not hit, f"{name} {sorted(opened)}: {wire.net.tensor} through {what}"


def test_wires_are_right_angled_and_reach_their_ends(graph: Graph) -> None:
    for name, opened in cases(graph):
        for placed in scopes(lay_out(graph, name, opened)):
            boxes = {box.node.id: box for box in placed.boxes}
            for wire in placed.wires:
                for target, points in wire.paths:
                    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(points))
                    if target[0] != OUT:
                        box = boxes[target[0]]
                        x, y = points[-1]
                        assert box.x <= x <= box.x + box.w
                        assert box.y <= y <= box.y + box.h


def test_no_two_values_share_a_track(graph: Graph) -> None:
    for name, opened in cases(graph):
        for placed in scopes(lay_out(graph, name, opened)):
            seen: list[tuple[str, float, float, float]] = []
            for wire in placed.wires:
                for _, points in wire.paths:
                    for (ax, ay), (bx, by) in pairwise(points):
                        if ay == by and ax != bx:
                            seen.append((wire.net.tensor, ay, min(ax, bx), max(ax, bx)))
            for (t, y, a, b), (u, z, c, d) in combinations(seen, 2):
                assert t == u or y != z or b <= c or d <= a, f"{name}: {t} over {u}"


def test_the_residual_stream_is_straight(graph: Graph) -> None:
    for name, opened in ((r.name, opened) for r in graph.regions for opened in foldings(graph, r.name)):
        placed = lay_out(graph, name, opened)
        flows = stream(graph)
        xs = {
            x
            for wire in placed.wires
            if wire.net.tensor in flows
            for target, points in wire.paths
            if target[0] == OUT or graph.by_id[target[0]].class_ == "ResidualAdd"
            for x, _ in points
        }
        assert len(xs) == 1


def test_the_trunk_of_a_block_is_its_stream(graph: Graph) -> None:
    for region in graph.regions:
        trunk = scope_of(graph, region.name).trunk
        sums = [name for name in graph.by_id[region.name].children if graph.by_id[name].class_ == "ResidualAdd"]
        assert [end[0] for end in trunk] == [IN, *sums, OUT]


def test_the_trunk_of_a_model_runs_through_all_its_blocks(graph: Graph) -> None:
    trunk = [end[0] for end in scope_of(graph, "").trunk]
    assert (STACK if len(graph.regions) > 1 else graph.regions[0].name) in trunk
    assert trunk[0] == IN
    assert trunk[-1] == OUT


def test_context_is_pills(graph: Graph) -> None:
    """Under the name of what made it, in every block; what the model is given, under the argument's."""
    for region in graph.regions:
        scope = scope_of(graph, f"{region.name}.attention")
        ports = graph.by_id[f"{region.name}.attention.q_rotate"].inputs
        makers = {port.tensor.split(".")[0] for port in ports if not port.tensor.startswith(region.name)}
        pills = scope.pills[f"{region.name}.attention.q_rotate"]
        assert [pill.text for pill in pills] == [name.replace("_", " ") for name in makers]
        assert [pill.text for pill in scope.pills[f"{region.name}.attention.cache"]] == ["cache", "slots"]
        assert not any(net.tensor in pills[0].tensors for net in scope.nets)


def test_same_map_same_picture(graph: Graph) -> None:
    for name, opened in cases(graph):
        pen = Pen(graph, file_of, foldable=True)
        assert draw(pen, name, opened) == draw(Pen(graph, file_of, foldable=True), name, opened)
