"""The exact score beside its peers, and why one temperature is not one angular scale.

Prints the errors of q against Arb at a few telling points and draws two panels into out/:
the error of q along kappa at p = 1024, and the angular gain g = A/tau along kappa/p.
About ten seconds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the peers live in benchmarks/

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks import accuracy, peers
from benchmarks.accuracy import arb
from resultant import bessel_ratio

TAU = 0.1
RHO = (-0.9, -0.4, 0.3, 0.8, 1.0)
PICTURE_P = 1024

# p and kappa: kappa far above p, near it, where I_nu underflows, and an odd dimension.
POINTS = [(128, 2000.0), (1024, 500.0), (2048, 409.6), (127, 200.0)]

# A quarter of the spacing of float64: no error to be drawn is below it but zero.
FLOOR = 2.0**-54

COLOURS = {
    "resultant, float64": "#1b4f9c",
    "resultant, float32": "#58a6e8",
    "scipy ive": "#e08214",
    "ProCo recurrence": "#b2182b",
}


def errors(p: int, kappa: np.ndarray) -> dict[str, np.ndarray]:
    """For each method, its largest error over RHO at every kappa, nan where q is not finite."""
    rho, k = (accuracy.single(a.ravel()) for a in np.meshgrid(RHO, kappa))
    tau = accuracy.single(np.full_like(k, TAU))
    truth = np.array([arb.score(*x, p)[:2] for x in zip(rho, k, tau, strict=True)])
    scale = np.maximum(abs(truth[:, 0]), abs(rho * truth[:, 1]))
    found = {}
    for name, score in peers.scores().items():
        error = abs(score(rho, k, tau, p) - truth[:, 0]) / scale
        error[~np.isfinite(error)] = np.nan
        found[name] = error.reshape(len(kappa), len(RHO)).max(axis=1)
    return found


def coloured(error: float) -> Text:
    if np.isnan(error):
        return Text("nan", style="bold red")
    style = "green" if error < 1e-14 else "cyan" if error < 1e-6 else "red"
    return Text(f"{error:.0e}", style=style)


def print_table(console: Console) -> list[dict[str, object]]:
    names = list(peers.scores())
    title = f"Error of q relative to its size, tau = {TAU}, worst of {len(RHO)} cosines"
    table = Table(title=title, box=SIMPLE)
    for head in ("p", "kappa"):
        table.add_column(head, justify="right")
    for name in names:
        table.add_column("\n".join(name.replace(",", "").split(" ", 1)), justify="right")
    rows = []
    for p, kappa in POINTS:
        found = {name: float(e[0]) for name, e in errors(p, np.array([kappa])).items()}
        table.add_row(str(p), f"{kappa:g}", *(coloured(found[n]) for n in names))
        rows.append({"p": p, "kappa": kappa, "error": found})
    console.print(table)
    return rows


def draw_errors(axes: Axes) -> dict[str, list[float]]:
    kappa = np.geomspace(10, 1e5, 49)
    found = errors(PICTURE_P, kappa)
    for name, colour in COLOURS.items():
        error = np.maximum(found[name], FLOOR)
        axes.loglog(kappa, error, color=colour, lw=2)
        lost = np.isnan(error)
        if lost.any():
            top = np.full(lost.sum(), 0.25)
            axes.loglog(kappa[lost], top, "x", color=colour, ms=5, mew=1.5)
            x = kappa[lost][-1] * 1.25
            axes.text(x, 0.25, "scipy: not finite", color=colour, va="center", fontsize=9)
    for name, place in {
        "ProCo recurrence": (1.3e2, 6e-3),
        "resultant, float32": (1.3e2, 9e-7),
        "scipy ive": (3e2, 2e-11),
        "resultant, float64": (1.3e2, 3e-15),
    }.items():
        label = f"{name}, two values subtracted" if name == "scipy ive" else name
        axes.text(*place, label, color=COLOURS[name], fontsize=10)
    axes.set(
        xlabel=r"concentration $\kappa$",
        ylabel=r"error of $q$, relative",
        title=rf"The score in dimension {PICTURE_P}, $\tau$ = {TAU}",
        ylim=(1e-17, 1),
        xlim=(8, 1e5),
    )
    axes.grid(alpha=0.25, lw=0.6)
    return {"kappa": kappa.tolist(), **{name: found[name].tolist() for name in COLOURS}}


def gain(p: int, kappa: np.ndarray) -> np.ndarray:
    return peers.ours_ratio(bessel_ratio(0.0, 0.0).dtype)(p, kappa) / TAU


def draw_gain(axes: Axes) -> dict[str, list[float]]:
    share = np.geomspace(1e-2, 300, 201)
    found = {}
    # The widest first: the curves all but coincide.
    styles = {2048: ("#b9d3ee", 5, "-"), 128: ("#1b4f9c", 1.8, "-"), 8: ("#1b4f9c", 1.5, ":")}
    for p, (colour, width, line) in styles.items():
        g = gain(p, share * p)
        axes.semilogx(share, g, line, color=colour, lw=width, label=f"p = {p}")
        found[f"p = {p}"] = g.tolist()
    axes.axhline(1 / TAU, color="0.4", ls="--", lw=1.2)
    axes.text(1.2e-2, 1 / TAU + 0.15, r"$1/\tau$", color="0.3", fontsize=10)
    for part, name in ((0.1, "a loose class"), (1.0, "one in between"), (10.0, "a tight class")):
        (g,) = gain(128, np.array([part * 128]))
        axes.plot(part, g, "o", color="#b2182b", ms=7, zorder=5)
        text = f"{name}\n" + rf"$\kappa$ = {part * 128:g}, $g$ = {g:.1f}"
        axes.text(part * 1.45, g - 0.45, text, fontsize=10, color="#b2182b", va="center")
    axes.set(
        xlabel=r"$\kappa / p$",
        ylabel=r"angular gain $g = A_p(\kappa) / \tau$",
        title=rf"One temperature, $\tau$ = {TAU}, and many angular gains",
        ylim=(0, 11),
        xlim=(1e-2, 300),
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0.02, 0.88), frameon=False, handlelength=2.5)
    axes.grid(alpha=0.25, lw=0.6)
    return {"kappa over p": share.tolist(), **found}


def main() -> None:
    console = Console()
    rows = print_table(console)
    with console.status("drawing"):
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
        data = {"points": rows, "errors": draw_errors(left), "gain": draw_gain(right)}
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        out = ROOT / "out"
        out.mkdir(exist_ok=True)
        for kind in ("svg", "png"):
            figure.savefig(out / f"exact_score.{kind}", dpi=160)
        (out / "exact_score.json").write_text(json.dumps(data, indent=1) + "\n")
    console.print("The same as numbers: out/exact_score.json")
    console.print("The picture: out/exact_score.png")


if __name__ == "__main__":
    main()
