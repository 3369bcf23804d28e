"""The site: ``make docs`` builds it into .site, and takes every warning for an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexer import inherit
from pygments.lexers.sql import PostgresLexer
from pygments.token import Keyword, Name

from howdah import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Howdah"
author = "Howdah's authors"
release = version = __version__

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["screens", "benchmarks", "faults", "generate", "diagrams"]
# A link may go to any heading, by the name that other readers of Markdown give to it.
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"Howdah {version}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
copybutton_prompt_text = "$ "


class Psql(PostgresLexer):
    """SQL with what psql adds to it."""

    tokens = {"root": [(r"\\\w+", Keyword), (r":'\w+'", Name.Variable), (r"\$\d+", Name.Variable), inherit]}  # noqa: RUF012


def setup(app: Sphinx) -> None:
    app.add_lexer("sql", Psql)
