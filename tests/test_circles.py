"""No circle of imports, whatever their table allows."""

import ast

from test_house import modules, name_of


def taken_by(source):
    """What of the package a file takes, each by its full name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "mse_lab":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def needs_of(sources):
    """Which modules of the package each one imports, by name."""

    def home(taken):
        """The module itself, or the one that it is an attribute of."""
        return taken if taken in sources else taken.rpartition(".")[0]

    return {name: {*map(home, taken_by(text))} - {name} for name, text in sources.items()}


def circle(needs):
    """Modules that cannot be imported one after the other; empty if there is no circle."""
    done = set()
    while ready := {name for name in needs if name not in done and needs[name] <= done}:
        done |= ready
    return sorted(set(needs) - done)


def test_imports_make_no_circle():
    """Each file of the package imports only files that can be imported before it.

    What the package itself gives is imported when it is used, but counts all the same.
    """
    sources = {
        ".".join(("mse_lab", *name_of(path))).removesuffix(".__init__"): path.read_text()
        for path in modules()
    }
    assert not circle(needs_of(sources))


def test_a_circle_is_seen():
    """The package gives a function of a file that asks the package for its version."""
    sources = {
        "mse_lab": "def late():\n    from mse_lab.api.measure import measure",
        "mse_lab.api.measure": "from mse_lab.run.finish import conclude",
        "mse_lab.run.finish": "from mse_lab import __version__",
    }
    assert circle(needs_of(sources)) == [
        "mse_lab",
        "mse_lab.api.measure",
        "mse_lab.run.finish",
    ]
    sources["mse_lab.run.finish"] = "from mse_lab.version import VERSION"
    sources["mse_lab.version"] = ""
    assert not circle(needs_of(sources))
