"""Sphinx configuration of the site; `make docs` builds it."""

import logging
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# Kernels of notebooks are quiet: nothing about debuggers, transport or their start.
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
os.environ["IPYTHONDIR"] = tempfile.mkdtemp()
# Small examples, several at a time: more threads would wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"
profile = Path(os.environ["IPYTHONDIR"]) / "profile_default"
profile.mkdir()
(profile / "ipython_kernel_config.py").write_text(
    "c.IPKernelApp.log_level = 40\nc.InlineBackend.figure_formats = {'svg'}\n"
)
logging.getLogger("traitlets").setLevel(logging.ERROR)
# Warnings of packages that notebooks import, about their own code: of tqdm, lightning and onnx_ir.
OTHERS = ("IProgress not found", "`isinstance(treespec", "overflow encountered in cast")
os.environ["PYTHONWARNINGS"] = ",".join(f"ignore:{beginning}" for beginning in OTHERS)
# One style of all pictures.
os.environ["MATPLOTLIBRC"] = str(Path(__file__).parent / "matplotlibrc")
# Notebooks call the command of this environment, and their output has no colours.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ.update(NO_COLOR="1", TERM="dumb", COLUMNS="88")

from resultant import __version__

project = "resultant"
author = "resultant developers"
copyright = author
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "myst_nb",
    "contents",
    "generated_pages",
    "links",
    "mathml",
    "names",
    "reproduction_pages",
]
exclude_patterns = [
    *("_build", "_ext"),
    *(f"gallery/**.{suffix}" for suffix in ("ipynb", "py", "json")),
]
nitpicky = False
suppress_warnings = ["config.cache"]  # functions of sphinx-gallery settings cannot be pickled

# Pages
html_theme = "furo"
html_title = "resultant"
# The score and the charts of the explorer are those of the report's page.
html_static_path = ["_static", "../src/resultant/report/shared"]
html_css_files = ["site.css", "chart.css", "explorer/explorer.css"]
html_js_files = [
    *("site.js", "vmf.js", "chart.js"),
    *(f"explorer/{name}.js" for name in ("theory", "explorer", "tour")),
]
pygments_dark_style = "github-dark"
html_show_sourcelink = False
html_use_index = False  # the search finds names
html_show_search_summary = False  # summaries are fetched, which files on a disk do not allow

# Formulas are MathML, which browsers draw themselves: no script, no network.
html_math_renderer = "mathml"

# Notebooks
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # on a busy machine
nb_merge_streams = True
# Pages of other packages are shown without results where a package is absent (make docs installs
# all of them).
clients = {
    "lightning": "lightning",
    "huggingface": "transformers",
    "metric_learning": "pytorch_metric_learning",
    "onnx": "onnxruntime",
    "pyro": "pyro",
    "skorch": "skorch",
}
nb_execution_excludepatterns = [
    f"howto/{page}.md" for page, package in clients.items() if find_spec(package) is None
]
nb_render_markdown_format = "myst"
if "fast" in tags:  # noqa: F821, of sphinx
    nb_execution_mode = "off"
    # Their languages are known after they ran.
    suppress_warnings.append("myst-nb.lexer")

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "ignore_pattern": r"__init__\.py",
    "image_scrapers": ("gallery_style.svg",),
    "reset_modules": ("gallery_style.reset",),
    "within_subsection_order": "gallery_style.Order",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}

# Reference
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "name"
