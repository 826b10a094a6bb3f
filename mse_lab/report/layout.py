"""Layout: a template of `templates/` and its context -> text.

On pages every text is escaped, whatever its source; `.txt` and `.md` are left as they are.
"""

import math
from inspect import getmembers, isfunction
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mse_lab import words


def _is_page(template: str | None) -> bool:
    return template is None or not template.endswith((".txt", ".md"))


TEMPLATES = Environment(
    loader=PackageLoader("mse_lab.report"),
    autoescape=_is_page,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= dict(getmembers(words, isfunction))
TEMPLATES.tests |= {"infinite": math.isinf, "unknown": math.isnan}


def lay_out(template: str, **context: Any) -> str:
    """Fill a template in."""
    return TEMPLATES.get_template(template).render(context)


def lay_out_part(template: str, **context: Any) -> Markup:
    """Fill in the template of a part of a page, which the page does not escape again."""
    return Markup(lay_out(template, **context))
