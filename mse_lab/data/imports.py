"""The files that a user's module is made of: its own, and those beside it that it imports.

They are found by the import statements of each file, in functions too, as Python looks for
them: from the folder of the module's outermost package, and from the file's own folder.
Not found is what is imported by a text (`importlib`, `exec`), what is installed or lies
elsewhere on Python's path, this package, and what the code opens.
"""

import ast
from collections.abc import Iterator, Sequence
from importlib.machinery import all_suffixes
from pathlib import Path

# This package, whose version a result names.
OWN = Path(__file__).resolve().parents[1]


def _statements(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Give the imports of a file: how many folders up, 0 for the path, and the names."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # What is compiled; an error is said where it is run.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            level, inside = getattr(node, "level", 0), getattr(node, "module", None)
            for alias in node.names:
                name = f"{inside}.{alias.name}" if inside else alias.name
                yield level, name.split(".")


def _files_of(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Give the files that `import a.b` runs, found from a folder: of a, and of a.b."""
    for end in range(1, len(names) + 1):
        module = folder.joinpath(*names[:end])
        for suffix in all_suffixes():
            yield module / f"__init__{suffix}"
            yield module.with_name(f"{module.name}{suffix}")


def files_beside(path: Path, package: str) -> tuple[Path, list[Path]]:
    """Find the files beside that of a module of a package that it imports, or they do.

    Returns:
        The folder of the outermost package, and the files, in any order.
    """
    names = [name for name in package.split(".") if name]
    start = path.parents[len(names)]
    given = dict.fromkeys([path, *_files_of(start, names)])
    found = [file for file in given if file.is_file()]
    for file in found:  # They become more under way.
        for level, wanted in _statements(file):
            folders = [*file.parents[:level]][-1:] or [start, file.parent]
            for one in (one for folder in folders for one in _files_of(folder, wanted)):
                if one not in found and one.is_file() and OWN not in one.resolve().parents:
                    found.append(one)
    return start, [file for file in found if file != path]
