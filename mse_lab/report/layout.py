"""Layout: a template of `templates/` and its context -> text.

On pages every text is escaped, whatever its source; `.txt` and `.md` are left as they are.
"""

import math
from inspect import getmembers, isfunction
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from mse_lab import wording

TEMPLATES = Environment(
    loader=PackageLoader("mse_lab.report"),
    autoescape=select_autoescape((), ("txt", "md"), default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters |= dict(getmembers(wording, isfunction))
TEMPLATES.tests["unknown"] = math.isnan


def lay_out(template: str, **context: Any) -> str:
    """Fill a template in."""
    return TEMPLATES.get_template(template).render(context)
