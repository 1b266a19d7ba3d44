# SPDX-License-Identifier: BSD-3-Clause
"""How ``make docs`` builds the site: offline, from what ``pip install '.[docs]'`` brings."""

import os
import sys
from pathlib import Path

os.environ.setdefault("PYSHMEM_DEVICE", "sim")  # a GPU has nothing to do with it
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import pyshmem  # before Triton, whose interpreter it turns on

project = "pyshmem"
copyright = "the pyshmem authors, BSD-3-Clause"
release = version = pyshmem.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "public_names",
    "parsed_names",
    "settings_page",
]
exclude_patterns = ["_ext", "_build", "README.md"]
nitpicky = True  # a name in a role that is nowhere is a warning, and warnings end the build
# Of NumPy, whose inventory is not at hand offline.
nitpick_ignore = [("py:class", "numpy.ndarray"), ("py:class", "numpy.dtype")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Commands stand in texts too: quotes and dashes stay what can be typed.
smartquotes = False

autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"pyshmem {release}"
html_static_path = ["_static"]
html_css_files = ["pyshmem.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
html_copy_source = False
