"""How the site is built: `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from pydoc import locate
from typing import Any

import ziamath.fonts
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))

logger = logging.getLogger(__name__)

project = "tbq"
author = "the authors of tbq"
html_show_copyright = False
html_show_sphinx = False
html_title = "tbq"
html_theme = "furo"
html_copy_source = False
# formulas are MathML, for which not every system has a font
html_static_path = ["_static", str(Path(ziamath.fonts.__path__[0]) / "STIXTwoMath-Regular.ttf")]
html_css_files = ["site.css"]
pygments_style = "friendly"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static"]
suppress_warnings = ["myst.header"]  # tables that benchmarks write may begin at any level
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # what an argument may be is said in its description
autodoc_default_options = {"members": True, "undoc-members": True}
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False


def _mathml(block: bool) -> Any:
    """Formulas as MathML, which browsers show by themselves: no script, no fonts from elsewhere."""

    def visit(self: Any, node: nodes.Element) -> None:
        try:
            markup = tex2mathml(node.astext(), as_block=block)
        except MathError as error:
            logger.warning("%s", error, location=node)
            raise nodes.SkipNode from error
        self.body.append(f'<div class="math">{markup}</div>' if block else markup)
        raise nodes.SkipNode

    return visit


def _plain_bars(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """|x| in a docstring is an absolute value, not a substitution; ``|`` in code stays."""
    for i, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        lines[i] = "".join(
            part if part.startswith("``") else part.replace("|", r"\|") for part in parts
        )


def _comment(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """An attribute is described by the comment behind it."""
    owner = locate(name.rpartition(".")[0])
    if what == "attribute" and inspect.isclass(owner):
        source, own = inspect.getsource(owner), name.rpartition(".")[2]
        if found := re.search(rf"^    {own}\b[^\n#]*?  # (.+)$", source, re.M):
            lines[:] = [found[1][0].upper() + found[1][1:], ""]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _comment)
    app.connect("autodoc-process-docstring", _plain_bars)
    app.add_html_math_renderer("mathml", (_mathml(False), None), (_mathml(True), None))
