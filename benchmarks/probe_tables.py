"""The table of the choices of a linear probe, from probes.json."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import table

NOTE = """\
Choices of a linear probe that the paper leaves open, on the packaged features ({features}; ours
{ours}). Each row is the change in points when one choice differs from ours, at the same order of
features: the smallest and largest of {orders} orders. The row of orders compares orders with the
first."""


def report(probes: dict[str, Any]) -> str:
    spaces = list(probes["ours"])
    body = [
        [name, *(f"{min(own[space]):+z.2f} to {max(own[space]):+z.2f}" for space in spaces)]
        for name, own in probes["changes"].items()
    ]
    ours = ", ".join(f"{space} {value:.2f} %" for space, value in probes["ours"].items())
    orders = max(len(v) for own in probes["changes"].values() for v in own.values())
    note = NOTE.format(features=probes["features"], ours=ours, orders=orders)
    return f"{table(['another', *spaces], body)}\n\n{note}"
