"""Tables of training on image files, from benchmarks/images.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import amount, table

Row = dict[str, Any]

NOTE = """\
ResNet-50 with all views of a batch: random crops, colours and RandAugment, made on the GPU. The
resident batch is the same step, compiled and in a CUDA graph, on one batch that stays on the GPU.
"Other" is the GPU memory without the network and the decoded images. Each row is one run, and its
speed the mean over all measured epochs from the second on: five of the JPEG files, twelve of
Tiny-ImageNet-LT. The images are decoded before the first epoch.
{device}, torch {torch}."""
SIDE_NOTE = """\
Two runs side by side, on streams of their own, take {both:.2f} s per epoch of {case}; one after the
other they take {apart:.2f} s."""
# Smallest ratio to the resident batch, and views per second.
BARS = {224: (0.92, 5_000), 64: (0.92, 22_000)}


def name(row: Row) -> str:
    return f"{row['case']}, {row['views']} views of {row['size']} x {row['size']}"


def bars(images: Row) -> Iterator[list[str]]:
    """Rows of the README: the loop, and its targets."""
    for row in images["rows"]:
        ratio, speed = BARS[row["size"]]
        measured = f"{amount(row['views_per_second'])} views/s"
        same = f"{row['ratio']:.2f} of a resident batch"
        yield [
            f"ResNet-50, {name(row)}, {images['device']}",
            f"{measured}, {same}",
            f"target {amount(speed)} views/s and {ratio}"
            + (", not met" if row["ratio"] < ratio or row["views_per_second"] < speed else ""),
        ]


def report(images: Row) -> str:
    head = ["images", "batch", "resident, views/s", "loop, views/s", "ratio"]
    head += ["decoding, images/s", "network, GB", "other, GB"]
    body = [
        [
            name(row),
            *(
                amount(row[key])
                for key in ("batch", "resident_views_per_second", "views_per_second")
            ),
            f"{row['ratio']:.2f}",
            amount(row["decoding_images_per_second"]),
            amount(row["network_gb"]),
            amount(row["beside_gb"]),
        ]
        for row in images["rows"]
    ]
    parts = [table(head, body), NOTE.format(**images)]
    if "side_by_side" in images:
        parts.append(SIDE_NOTE.format(**images["side_by_side"]))
    return "\n\n".join(parts)
