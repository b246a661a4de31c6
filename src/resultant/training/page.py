"""The page of a fine-tuning, in Markdown: what it reaches, then how."""

from collections.abc import Mapping
from typing import Any

from resultant._core.text import counted, listed, signed

# Columns of the table by the names of the measures.
TITLES = {"accuracy": "all images", "balanced accuracy": "all classes"}
VERDICTS = {
    "frozen": "Fine-tuning did not help: keep the features of the network as it came.",
    "own": "Fine-tuning helped: use the tuned network with its own classifier.",
    "head": "Fine-tuning helped: use the tuned network with a classifier of its features.",
    "refined": "Fine-tuning helped: use the tuned network with refined classes of its features.",
}


def markdown(report: Mapping[str, Any]) -> str:
    """Return the page of the numbers of a `resultant.training.tune.TuneResult`."""
    methods = report["methods"]
    frozen, chosen = methods[0], next(m for m in methods if m["key"] == report["chosen"])
    best = max(methods[1:], key=lambda m: m["validation"])
    shown = best if chosen is frozen else chosen
    sizes = ", ".join(f"{number:,} {name}" for name, number in report["images"].items())
    low, high = report["counts"]
    classes = counted(report["classes"], "class", "classes")
    metric, difference = report["metric"], shown["difference"][report["metric"]]
    titles = [str(TITLES.get(name, name)) for name in frozen["test"]]
    lines = [
        f"# {report['model']}, tuned",
        "",
        VERDICTS[report["chosen"]],
        "",
        f"On the test images the {metric} is {percent(frozen['test'][metric]['value'])} before and "
        f"{percent(shown['test'][metric]['value'])} after: {points(difference)} points.",
        "",
        f"| | {' | '.join(titles)} | validation |",
        "|---|" + "---|" * (len(titles) + 1),
    ]
    for one in methods:
        cells = [percent(value["value"]) for value in one["test"].values()]
        mark = "**" if one is chosen else ""
        name = f"{mark}{one['name']}{mark}"
        lines.append(f"| {name} | {' | '.join(cells)} | {percent(one['validation'])} |")
    cells = [points(value) for value in shown["difference"].values()]
    lines.append(f"| difference of {shown['name']} | {' | '.join(cells)} | |")
    epochs, seconds = report["epochs"], report["seconds"]
    times = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    lines += [
        "",
        "Accuracies in percent; all classes, head, medium and tail are means over their classes. "
        "Head classes have more than 100 training images, tail classes fewer than 20 (of ten "
        "classes: by rank). Differences are points with 95 % intervals for the same images.",
        "",
        f"- Images: {sizes}; {classes} of {low:,} to {high:,} training images. The {metric} on "
        "the validation images has chosen; the test images have chosen nothing. Classifiers of "
        "features are fitted to training and validation images.",
        f"- Training: {counted(epochs['trained'], 'epoch', 'epochs')} of {epochs['most']}; "
        f"epoch {epochs['best']} is kept.",
        f"- Time on {report['device']}: {times}.",
    ]
    if report["gpu_bytes"]:
        lines.append(f"- Memory of the GPU: {report['gpu_bytes'] / 1e9:.1f} GB at most.")
    if names := report["left_out"]:
        lines.append(f"- Left out: {len(names):,}, such as {names[0]}.")
    if names := report["unknown"]:
        text = (
            "- Classes of a single training image, which the first and the third method do not know"
        )
        lines.append(f"{text}: {listed(names, 5)}.")
    lines += ["", "    resultant predict FOLDER_OF_THIS_PAGE NEW_PICTURES", ""]
    return "\n".join(lines)


def percent(value: float) -> str:
    """Return a share in percent with one digit."""
    return f"{100 * value:.1f}"


def points(difference: Mapping[str, float]) -> str:
    """Return a difference in points with its interval."""
    value, low, high = (signed(100 * difference[name]) for name in ("gain", "low", "high"))
    return f"{value} [{low}, {high}]"
