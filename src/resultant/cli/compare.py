"""``resultant compare``: a report on two feature sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from resultant._core.text import printable
from resultant.cli.analyze import finish, print_lines, read_line, remarks
from resultant.cli.arguments import FeatureOptions, refuse_network


@dataclass(frozen=True, kw_only=True)
class Compare(FeatureOptions):
    """Compare two feature sets, and report which is better.

    Features with the same name are compared, or the only features of each side. The features of
    networks are those that resultant extract writes.

    Example:
      resultant compare before.safetensors after.safetensors
    """

    a: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="A")]]
    """Features, as for analyze."""
    b: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="B")]]
    """Features, as for A."""
    out: Path = Path("out/compare")
    """Folder of the report; an earlier report is replaced, other files are left untouched."""


def compare(options: Compare) -> None:
    """Compare both sides, write the report and print its summary."""
    from resultant.analysis.compare import compare_stores, same_features
    from resultant.analysis.run import explain
    from resultant.cli.progress import Screen
    from resultant.features.prepare import Prepared, prepare

    options.check()
    paths = options.a, options.b
    short = options.a.name != options.b.name
    titles = [printable(path.name if short else path) for path in paths]
    with Screen(options.quiet, options.json) as screen:
        screen.step("read and check the rows")
        stores: list[Prepared] = []
        for path in paths:
            refuse_network(path)
            # The rows of B are divided as the same rows of A.
            like = stores[0].divided if stores else None
            drop, skip = options.drop_zero_rows, options.skip_unknown_classes
            store = options.open(path)
            stores.append(prepare(store, drop, skip, seed=options.seed, like=like))
        stores, names = same_features(stores, paths)
        studies, comparisons, chosen = compare_stores(
            stores, titles, options.settings(), options.seed, screen.step
        )
        pairs = len(comparisons)
        # The pair whose first side is used decides.
        decided = comparisons[chosen[0]]
        both = [result for i in chosen if (result := studies[i].result) is not None]
        lines = [("read", read_line(feature)) for feature in both]
        for name, c in zip(names, comparisons, strict=True):
            lines.append(("verdict", c.sentence if pairs == 1 else f"{name}: {c.sentence}"))
        for side, feature in zip("AB", both, strict=True):
            lines += remarks(feature, f"{side}: ")
        # The verdict is known before the details of the page.
        print_lines(screen, lines)
        for i, study in enumerate(studies):
            explain(study, lambda text, side="AB"[i >= pairs]: screen.step(f"{side}: {text}"))
        used = chosen[decided.difference.verdict == "better"]
        finish(options, screen, " and ".join(titles), studies, used, comparisons)
