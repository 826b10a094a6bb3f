"""Every number of a run, frozen and validated: a probe's YAML -> `Probe`.

A probe says which policy is measured, on which prompts, with how many completions. A
value that cannot be used is refused here, in one line that names the key, the value and
the remedy, before a model is loaded.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError


class InputError(ValueError):
    """The user's input is at fault; the message is one line with the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Positive = Annotated[int, Field(ge=1)]


class Model(_Section):
    """Which policy.

    Attributes:
        path: A local checkpoint folder or a Hub name.
        revision: The Hub revision, or None for the default branch.
        dtype: Precision of the weights and of the forward pass.
        device: `auto` takes CUDA, then MPS, then the CPU.
        batch: Completions in one forward pass of sampling and of the reference.
    """

    path: str
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$")
    batch: Positive = 256


class Prompts(_Section):
    """Which prompts, and the text around them.

    Attributes:
        source: JSONL with `id`, `problem`, `answer` and optionally `category`.
        limit: Only the first so many; None for all.
        template: `plain`, `few-shot`, `none`, or a text file with `{problem}`.
        chat: Whether the text goes through the tokenizer's chat template.
    """

    source: str
    limit: Positive | None = None
    template: str = "plain"
    chat: bool = False


class Sampling(_Section):
    """The distribution that is sampled from and differentiated.

    Attributes:
        temperature: Divides the logits; part of the policy.
        max_new_tokens: A completion is cut there, a valid draw of the truncated policy.
    """

    temperature: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] = 1.0
    max_new_tokens: Positive = 8


class Pool(_Section):
    """Completions per prompt.

    Attributes:
        reference: For the reference gradient, in two halves.
        replicate: For the replicates; a whole number, two or more, of blocks of the
            largest group size.
    """

    reference: Annotated[int, Field(ge=4, multiple_of=2)] = 1024
    replicate: Positive = 256


class Interval(_Section):
    """Intervals.

    Attributes:
        level: Coverage, between 0 and 1.
        resamples: Bootstrap resamples.
    """

    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=100)] = 2000


EstimatorEntry = str | dict[str, Any]


class Probe(_Section):
    """One model configuration and how it is measured: a whole YAML file."""

    model: Model
    prompts: Prompts
    reward: str = "integer"
    sampling: Sampling = Sampling()
    pool: Pool = Pool()
    group_sizes: Annotated[list[Positive], Field(min_length=1)] = [4, 8, 16, 32, 64]
    estimators: Annotated[list[EstimatorEntry], Field(min_length=1)] = [
        "vanilla",
        "grpo",
        "oracle",
    ]
    parameters: Literal["all"] | Annotated[list[str], Field(min_length=1)] = "all"
    interval: Interval = Interval()
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def largest_group(self) -> int:
        """The block size: every group size divides it."""
        return max(self.group_sizes)

    @field_validator("group_sizes")
    @classmethod
    def _each_divides_the_largest(cls, sizes: list[int]) -> list[int]:
        for size in sizes:
            if max(sizes) % size:
                raise PydanticCustomError(
                    "group_sizes",
                    "{size} does not divide the largest, {largest}; use divisors of it",
                    {"size": size, "largest": max(sizes)},
                )
        if len(set(sizes)) < len(sizes):
            raise PydanticCustomError("group_sizes", "a size stands twice; name each once")
        return sorted(sizes)

    @field_validator("estimators")
    @classmethod
    def _each_has_a_name(cls, entries: list[EstimatorEntry]) -> list[EstimatorEntry]:
        for entry in entries:
            if isinstance(entry, dict) and not isinstance(entry.get("name"), str):
                raise PydanticCustomError(
                    "estimators",
                    "an entry with parameters needs a name: {{name: ..., k: 4}}",
                )
        return entries

    @model_validator(mode="after")
    def _at_least_two_blocks(self) -> Self:
        largest, size = self.largest_group, self.pool.replicate
        if size % largest or size < 2 * largest:
            raise PydanticCustomError(
                "pool",
                "pool.replicate = {size}: must be a multiple of the largest group size, "
                "{largest}, and at least two of its blocks; use {two} or more",
                {"size": size, "largest": largest, "two": 2 * largest},
            )
        return self


def _fields_at(path: Sequence[Any]) -> list[str]:
    """Names of the keys that may stand below `path`."""
    section: Any = Probe
    for key in path:
        section = section.model_fields[key].annotation
    return list(section.model_fields)


def nearest(name: str, known: Sequence[str]) -> str:
    """Name the known word nearest to a misspelt one, for an error message.

    >>> nearest("grop", ["vanilla", "grpo"])
    'did you mean grpo?'
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _one_line(error: ValidationError, source: str) -> InputError:
    """Turn the first complaint of pydantic into the one line a user reads."""
    first = error.errors(include_url=False)[0]
    path = [key for key in first["loc"] if not str(key).startswith(("str", "list", "dict"))]
    key = ".".join(str(part) for part in path)
    if first["type"] == "extra_forbidden":
        hint = nearest(str(path[-1]), _fields_at(path[:-1]))
        return InputError(f"{source}: unknown key {key}; {hint}")
    if first["type"] == "missing":
        return InputError(f"{source}: {key} is missing; add it")
    if not key:
        return InputError(f"{source}: {first['msg']}")
    message = first["msg"].removeprefix("Input ")
    return InputError(f"{source}: {key} = {first['input']!r}: {message}")


def parse_probe(values: Any, source: str) -> Probe:
    """Validate the content of a probe.

    Args:
        values: What the YAML holds.
        source: Its name, for messages.

    Returns:
        The frozen configuration with every default filled in.

    Raises:
        InputError: A key is unknown or missing, or a value cannot be used.
    """
    if not isinstance(values, Mapping):
        raise InputError(
            f"{source}: not a mapping of keys to values; see probes/tiny/base.yaml"
        )
    try:
        return Probe.model_validate(dict(values))
    except ValidationError as error:
        raise _one_line(error, source) from None


def _read_yaml(text: str, source: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{source}: not valid YAML: {reason}") from None


def _assign(values: dict[str, Any], assignment: str) -> None:
    """Carry out one `--set dotted.key=value`; the value is YAML."""
    key, equals, text = assignment.partition("=")
    if not equals:
        raise InputError(
            f"--set {assignment}: not KEY=VALUE; write pool.replicate=128, say"
        )
    *sections, last = key.strip().split(".")
    target = values
    for section in sections:
        if not isinstance(target.setdefault(section, {}), dict):
            raise InputError(f"--set {assignment}: {section} holds no keys; set it whole")
        target = target[section]
    target[last] = _read_yaml(text, f"--set {assignment}")


def probe_file(name: str, root: Path) -> Path:
    """Find a probe: `tiny/base` is `probes/tiny/base.yaml`; `*.yaml` is a path.

    Raises:
        InputError: There is no such file.
    """
    path = (
        Path(name) if name.endswith((".yaml", ".yml")) else root / "probes" / f"{name}.yaml"
    )
    if not path.is_file():
        known = [known_name for known_name, _ in probe_files(root)]
        raise InputError(f"no probe {name}; {nearest(name, known)}")
    return path


def probe_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every probe below `probes/`, in order of the names."""
    folder = root / "probes"
    for path in sorted(folder.rglob("*.yaml")):
        yield path.relative_to(folder).with_suffix("").as_posix(), path


def probe_name(path: Path, root: Path) -> str:
    """Name the results folder: the path below `probes/`, else the file's own name."""
    folder = (root / "probes").resolve()
    resolved = path.resolve()
    if resolved.is_relative_to(folder):
        return resolved.relative_to(folder).with_suffix("").as_posix()
    return path.stem


def load_probe(path: Path, assignments: Sequence[str] = ()) -> Probe:
    """Read a probe's YAML and carry out the `--set` assignments.

    Args:
        path: The YAML file.
        assignments: Texts `dotted.key=value`, the values in YAML.

    Raises:
        InputError: The file cannot be read, or its content cannot be used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    values = _read_yaml(text, str(path))
    if isinstance(values, dict):
        for assignment in assignments:
            _assign(values, assignment)
    return parse_probe(values, str(path))


def dump_probe(probe: Probe) -> str:
    """Write the resolved configuration as YAML; reading it back gives the same probe."""
    return yaml.safe_dump(
        probe.model_dump(mode="json"), sort_keys=False, allow_unicode=True
    )


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give a nested mapping dotted keys.

    >>> flatten({"pool": {"reference": 8}, "seed": 0})
    {'pool.reference': 8, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def local_path(name: str, root: Path) -> Path | None:
    """Resolve a path of a probe: against the working folder, then the project's.

    Returns:
        The existing path, or None.
    """
    for candidate in (Path(name), root / name):
        if candidate.exists():
            return candidate
    return None
