"""`oma list`: the catalogue."""

import argparse

HELP = "list the models of the atlas"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `oma list`."""
    parser.add_argument("--json", action="store_true", help="print releases and models as JSON")


def run(args: argparse.Namespace) -> int:
    """Print every release with its models."""
    from openmodelatlas.catalog.load import releases
    from openmodelatlas.records.json import dump_json

    if args.json:
        print(dump_json(tuple(releases().values())), end="")
        return 0
    width = max(len(m.id) for r in releases().values() for m in r.models)
    for release in releases().values():
        line = f"{release.title} · {release.maker} · {release.month} · {release.kind}"
        print(line + (f" · follows {releases()[release.follows].title}" if release.follows else ""))
        for model in release.models:
            default = "  (default size)" if model.id == release.default and len(release.models) > 1 else ""
            print(f"  {model.id:<{width}}  {model.size:>5}  context {model.context.config.positions:>7,}{default}")
    return 0
