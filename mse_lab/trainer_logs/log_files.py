"""Files of a log: found in folders, and recognised by what is in them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mse_lab.errors import InputError, shorten
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs import (
    areal,
    nemo_rl,
    open_instruct,
    plain,
    prime_rl,
    slime,
    trl,
    verl,
)
from mse_lab.trainer_logs.completion import Form
from mse_lab.trainer_logs.records import PICKLES, SUFFIXES, CutLine, records_of

# The more particular come first.
FORMS = (
    *(prime_rl.EXPORTS, prime_rl.EPISODES, prime_rl.TRACES, open_instruct.FORM),
    *(nemo_rl.FORM, areal.FORM, verl.FORM, trl.FORM, slime.FORM, plain.FORM),
)

_NUMBER = re.compile(r"(\d+)")


def recognise(keys: Sequence[str]) -> Form | None:
    """Find the form whose records have these keys; None if none has.

    >>> recognise(["step", "input", "output", "gts", "score"]).name
    'verl'
    """
    for form in FORMS:
        if form.fits(keys):
            return form
    return plain.FORM if plain.fits(set(keys)) else None


def _form_of(path: Path) -> Form | None:
    """Find the form of a file by its first record; None where it has none of ours."""
    if path.suffix == ".pt":
        return slime.FORM
    try:
        first = next(records_of(path), None)
    except CutLine:
        return None
    return None if first is None else recognise(list(first[1]))


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sort 2.jsonl before 10.jsonl."""
    return [
        (int(part), "") if part.isdigit() else (0, part)
        for part in _NUMBER.split(str(path))
    ]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        with reading(path):
            if path.is_dir():
                found = (one for one in path.rglob("*") if one.suffix in SUFFIXES)
                yield from sorted((one for one in found if one.is_file()), key=_natural)
            elif path.is_file():
                yield path
            else:
                raise InputError(f"{path}: no such file or folder; name a run's folder")


def _of_prime_rl(files: Sequence[Path]) -> list[Path]:
    """Leave out evaluations, and the traces that stand in `all`, too."""
    trained = [path for path in files if "eval" not in path.parts]
    if any("all" in path.parts for path in trained):
        return [path for path in trained if "effective" not in path.parts]
    return trained


def _needs() -> str:
    return "; ".join(f"{form.name}: {', '.join(form.needs)}" for form in FORMS)


def _looked(files: Sequence[Path]) -> str:
    """Name the files, and what the first of them has."""
    try:
        _, record = next(records_of(files[0]))
    except (CutLine, StopIteration):
        return shorten(f"{', '.join(map(str, files))} (no record in the first)", 120)
    keys = shorten(", ".join(map(str, record)))
    return f"{shorten(', '.join(map(str, files)))} (the first has {keys})"


def _refuse_unknown(paths: Sequence[Path], files: Sequence[Path]) -> None:
    where = ", ".join(map(str, paths))
    pickles = [
        str(one) for path in paths if path.is_dir() for one in path.rglob("*")
        if one.suffix in PICKLES
    ]  # fmt: skip
    if pickles:
        raise InputError(
            f"{shorten(where)}: rollouts in a pickle ({shorten(pickles[0])}) are never "
            "loaded; save their rows as JSONL with prompt_id and reward"
        )
    if not files:
        raise InputError(
            f"{shorten(where)}: has no {', '.join(SUFFIXES)} file; name the folder that "
            "the trainer writes its rollouts to"
        )
    raise InputError(
        f"{shorten(where)}: no rollouts of a known form. Looked at: {_looked(files)}. "
        "Name your columns by --columns prompt=...,reward=...; known forms have these: "
        f"{_needs()}"
    )


def _refuse_mixture(forms: dict[Path, Form]) -> None:
    kinds = {form.name.split()[0]: path for path, form in forms.items()}
    if len(kinds) > 1:
        some = ", ".join(f"{path} ({name})" for name, path in kinds.items())
        raise InputError(
            f"{shorten(some, 300)}: rollouts of several forms; name the files of one"
        )


def find_logs(paths: Sequence[Path]) -> tuple[dict[Path, Form], list[Path]]:
    """Find the files of a log and their forms, and those that are of no form.

    Raises:
        InputError: There are none, or they are of several forms.
    """
    files = list(_files(paths))
    forms, unknown = {}, []
    for path in files:
        form = _form_of(path)
        if form is None:
            unknown.append(path)
        else:
            forms[path] = form
    if not forms:
        _refuse_unknown(paths, unknown)
    _refuse_mixture(forms)
    if next(iter(forms.values())).name.startswith("prime-rl"):
        forms = {path: forms[path] for path in _of_prime_rl(list(forms))}
    return forms, unknown
