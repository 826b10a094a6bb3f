"""Write the names of all settings of TRL and verl beside the table of trainers.

TRL's are the fields of the classes that its scripts parse, as installed; verl's those of
its generated configurations, whose folder is the argument: `verl/trainer/config` of a
checkout or of an unpacked wheel. Without an argument verl's are left as they are.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

NAMES = Path(__file__).parents[1] / "mse_lab/config/names"


def names_of_trl(trainer: str) -> set[str]:
    """List what a script of TRL takes: `grpo` or `rloo`."""
    from importlib import import_module

    import trl

    script = import_module(f"trl.scripts.{trainer}")
    own = getattr(script, f"{trainer.upper()}ScriptArguments")
    config = getattr(trl, f"{trainer.upper()}Config")
    classes = (own, config, trl.ModelConfig, trl.DatasetMixtureConfig)
    return {field.name for one in classes for field in dataclasses.fields(one)}


def dotted(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """List the leaves of nested settings."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def names_of_verl(folder: Path) -> set[str]:
    """List what verl's generated configurations hold."""
    files = [*folder.glob("_generated_*.yaml")]
    return {name for file in files for name in dotted(yaml.safe_load(file.read_text()))}


if __name__ == "__main__":
    lists = {"trl": names_of_trl("grpo"), "rloo": names_of_trl("rloo")}
    if sys.argv[1:]:
        lists["verl"] = names_of_verl(Path(sys.argv[1]))
    for name, names in lists.items():
        text = "".join(f"{one}\n" for one in sorted(names))
        (NAMES / f"{name}.txt").write_text(text, encoding="utf-8")
