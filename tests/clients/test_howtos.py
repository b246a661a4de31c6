"""How-tos of the site: their cells run, where the packages that they use are installed."""

import re
from pathlib import Path

import pytest

from programs import run_program

PAGES = Path(__file__).parents[2] / "docs" / "howto"
NEEDED = {
    "lightning": ["lightning"],
    "huggingface": ["accelerate", "transformers"],
    "metric_learning": ["pytorch_metric_learning"],
    "scikit_learn": [],
    "onnx": ["onnxruntime", "onnxscript"],
    "pyro": ["pyro"],
    "skorch": ["skorch"],
    "streaming": [],
    "none_of_these": [],
    "out_of_distribution": [],
}
# As in conftest: a torchvision whose compiled operators do not load beside torch.
START = "from resultant.images.vision import declare_operators as declare\ndeclare()\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", NEEDED)
def test_cells_run(page: str) -> None:
    for package in NEEDED[page]:
        pytest.importorskip(package)
    text = (PAGES / f"{page}.md").read_text()
    # Cells with options make tables from the files of the benchmarks.
    cells = re.findall(r"^```\{code-cell\}\n((?!:).*?)^```", text, re.M | re.S)
    assert cells, f"expected code cells in {page}.md"
    code = START + "\n".join(cells)
    # Packages of others set what all later tests would have.
    run_program(code) if NEEDED[page] else exec(compile(code, page, "exec"), {"__name__": page})
