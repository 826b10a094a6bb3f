"""Every number of a run, frozen and validated: a probe's YAML -> `Probe`.

A probe says which policy is measured, on which prompts, with how many completions. A
value that cannot be used is refused here, in one line that names the key, the value and
the remedy, before a model is loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mse_lab.errors import InputError, nearest, shorten, shown
from mse_lab.probe.patterns import fault_of_pattern
from mse_lab.probe.plain_text import (
    fault_of_text,
    parse_yaml,
    read_text,
    reading,
    refuse_unusable,
)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# What an array can be long.
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]

# Names and paths.
Text = Annotated[str, Field(min_length=1, max_length=4096)]


class FreshAdapter(_Section):
    """A new LoRA adapter: W + (alpha / rank) B A beside every target, A random, B zero.

    Attributes:
        rank: Rows of A.
        alpha: Scales the update, over the rank.
        target: `all-linear` (every linear layer but the head), or names of modules.
    """

    rank: Positive = 8
    alpha: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] = 16.0
    target: str | Annotated[list[Text], Field(min_length=1)] = "all-linear"

    @field_validator("target")
    @classmethod
    def _names_stand_in_a_list(cls, target: str | list[str]) -> str | list[str]:
        if isinstance(target, str) and target != "all-linear":
            raise PydanticCustomError(
                "target", "use all-linear, or a list of modules such as [q_proj, v_proj]"
            )
        return target


def _kind_of_adapter(value: Any) -> str | None:
    if value is None:
        return "str-or-null"
    return "dict" if isinstance(value, Mapping | FreshAdapter) else "str-or-null"


# The tags are such that `_one_line` leaves them out of the key.
AdapterEntry = Annotated[
    Annotated[Text | None, Tag("str-or-null")] | Annotated[FreshAdapter, Tag("dict")],
    Discriminator(_kind_of_adapter),
]


class Model(_Section):
    """Which policy.

    Attributes:
        path: A local checkpoint folder or a Hub name.
        revision: The Hub revision, or None for the default branch.
        adapter: A saved LoRA adapter, by folder or Hub name, or a fresh one; then only its
            parameters count. None trains the model's own.
        adapter_revision: The Hub revision of a saved adapter.
        dtype: Precision of the weights and of the forward pass.
        device: `auto` takes CUDA, then MPS, then the CPU.
        device_map: `auto` spreads the layers over all devices of the machine.
        memory: What the run may take of the device's memory, such as `40GB`; None for 85%
            of a GPU's, half of the host's.
        batch: The most completions that are drawn at once; None for as many as the memory
            holds.
    """

    path: Text
    revision: Text | None = None
    adapter: AdapterEntry = None
    adapter_revision: Text | None = None
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?|mps)$")
    device_map: Literal["auto"] | None = None
    memory: (
        Annotated[str, Field(pattern=r"(?i)^ *[0-9]{1,15}(\.[0-9]{1,9})? *([kmgt]i?b)? *$")]
        | Annotated[int, Field(ge=1, lt=2**63)]
        | None
    ) = None
    batch: Positive | None = None

    @field_validator("device_map")
    @classmethod
    def _chooses_the_devices(cls, value: str | None, info: ValidationInfo) -> str | None:
        device = info.data.get("device", "auto")
        if value is not None and device != "auto":
            raise PydanticCustomError(
                "device_map",
                "takes all devices; set model.device = auto, not {device}, and choose "
                "among them with CUDA_VISIBLE_DEVICES",
                {"device": device},
            )
        return value


class Fields(_Section):
    """What the source calls the fields of a prompt.

    Attributes:
        problem: What the template shows.
        answer: The reference answer, as the reward reads it.
        id: Unique in the set. Where the source has no field `id`, ids are made from its
            name and the row number; any other field that is named here must be there.
        category: For tables; may be missing.
    """

    problem: Text = "problem"
    answer: Text = "answer"
    id: Text = "id"
    category: Text = "category"


class Shots(_Section):
    """Demonstrations, shown where the template has its `{shots}` ... `{/shots}`.

    They are the first rows of their source that are not measured prompts themselves, the
    same for every prompt, and their fields are called as those of the prompts.

    Attributes:
        count: How many; 0 for none.
        source: Like `prompts.source`; None for the same one, of the same subset and
            revision.
        subset: Like `prompts.subset`.
        split: The split of a data set; None takes `train`.
        revision: Like `prompts.revision`.
    """

    count: Annotated[int, Field(ge=0, lt=2**31)] = 0
    source: Text | None = None
    subset: Text | None = None
    split: Text | None = None
    revision: Text | None = None

    @model_validator(mode="after")
    def _says_how_many(self) -> Self:
        given = [key for key in ("source", "subset", "split", "revision")
                 if getattr(self, key) is not None]  # fmt: skip
        if given and not self.count:
            raise PydanticCustomError(
                "shots", "{given} is given and no count; add count: 4", {"given": given[0]}
            )
        return self


class Prompts(_Section):
    """Which prompts, and the text around them.

    Attributes:
        source: A JSONL file with `id`, `problem`, `answer` and optionally `category` a
            line; a Hub data set `owner/name`; or a local folder, parquet, CSV or Arrow
            file. All but JSONL are read by the library datasets, of the extra `data`.
        subset: The data set's configuration, where it has several.
        split: The split of a data set; None takes `test`.
        revision: The Hub revision, best a commit; None for the default branch.
        fields: What the source calls the fields.
        limit: Only the first so many; None for all.
        template: `plain`, `few-shot`, `word-problem`, `boxed`, `none`, or a text file with
            `{problem}`.
        shots: Demonstrations for the template.
        chat: Whether the text goes through the tokenizer's chat template.
    """

    source: Text
    subset: Text | None = None
    split: Text | None = None
    revision: Text | None = None
    fields: Fields = Fields()
    limit: Positive | None = None
    template: Text = "plain"
    shots: Shots = Shots()
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

    reference: Annotated[int, Field(ge=4, lt=2**31, multiple_of=2)] = 1024
    replicate: Positive = 256


class Interval(_Section):
    """Intervals.

    Attributes:
        level: Coverage, between 0 and 1.
        resamples: Draws of the parametric bootstrap of the reference's noise.
        width: The half-width that is wanted, relative to the MSE, of every point of the
            MSE curves: `plan` says whether the pools are large enough. Changes no result.
    """

    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=100, le=10**6)] = 2000
    width: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] = 0.1


EstimatorEntry = str | dict[str, Any]


class Probe(_Section):
    """One model configuration and how it is measured: a whole YAML file.

    With `completions`, a JSONL file (`supplied_line.py`), they are read instead of drawn,
    and `reward: supplied` takes their rewards from it too.
    """

    model: Model
    prompts: Prompts
    reward: Text = "integer"
    sampling: Sampling = Sampling()
    completions: Text | None = None
    pool: Pool = Pool()
    group_sizes: Annotated[list[Positive], Field(min_length=1)] = [4, 8, 16, 32, 64]
    estimators: Annotated[list[EstimatorEntry], Field(min_length=1)] = [
        "vanilla",
        "grpo",
        "oracle",
    ]
    parameters: Literal["all"] | Annotated[list[Text], Field(min_length=1)] = "all"
    interval: Interval = Interval()
    seed: Annotated[int, Field(ge=0, lt=2**128)] = 0

    @property
    def largest_group(self) -> int:
        """The block size: every group size divides it."""
        return max(self.group_sizes)

    @field_validator("group_sizes")
    @classmethod
    def _each_divides_the_largest(cls, sizes: list[int]) -> list[int]:
        largest = max(sizes)
        for size in sizes:
            if largest % size:
                raise PydanticCustomError(
                    "group_sizes",
                    "{size} does not divide the largest, {largest}; use divisors of it",
                    {"size": size, "largest": largest},
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

    @field_validator("parameters")
    @classmethod
    def _each_is_a_pattern(cls, patterns: str | list[str]) -> str | list[str]:
        for pattern in [] if isinstance(patterns, str) else patterns:
            if fault := fault_of_pattern(pattern):
                raise PydanticCustomError(
                    "parameters",
                    "{pattern} is no regular expression: {fault}",
                    {"pattern": shown(pattern), "fault": fault},
                )
        return patterns

    @model_validator(mode="after")
    def _rewards_are_supplied_with_completions(self) -> Self:
        if self.reward == "supplied" and self.completions is None:
            raise PydanticCustomError(
                "reward",
                "reward = supplied: there is no file to read it from; give completions, or "
                "name another reward",
            )
        return self

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
        annotation = section.model_fields[key].annotation
        section = next(_sections_in(annotation), annotation)
    return list(section.model_fields)


def _sections_in(annotation: Any) -> Iterator[Any]:
    """Yield the sections among the alternatives of a type."""
    if isinstance(annotation, type) and issubclass(annotation, _Section):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)


def _keys(section: type[_Section]) -> Iterator[str]:
    """Yield the names of all keys of a section and those below."""
    for name, field in section.model_fields.items():
        yield name
        for below in _sections_in(field.annotation):
            yield from _keys(below)


_KEYS = frozenset(_keys(Probe))


def _one_line(error: ValidationError, source: str) -> InputError:
    """Turn the first complaint of pydantic into the one line a user reads."""
    first = error.errors(include_url=False)[0]
    *above, last = first["loc"] or [""]
    # Beside keys and places in lists pydantic names the alternatives of a type.
    path = [part for part in above if part in _KEYS or isinstance(part, int)]
    if first["type"] == "extra_forbidden":
        key = ".".join(map(str, [*path, shorten(str(last))]))
        hint = nearest(str(last), _fields_at(path))
        return InputError(f"{source}: unknown key {key}; {hint}")
    if last in _KEYS or isinstance(last, int):
        path.append(last)
    key = ".".join(map(str, path))
    if first["type"] == "missing":
        return InputError(f"{source}: {key} is missing; add it")
    if not key:
        return InputError(f"{source}: {first['msg']}")
    message = first["msg"].removeprefix("Input ")
    return InputError(f"{source}: {key} = {shown(first['input'])}: {message}")


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
    refuse_unusable(values, source)
    try:
        return Probe.model_validate(dict(values))
    except ValidationError as error:
        raise _one_line(error, source) from None


def assign(values: dict[str, Any], assignment: str) -> None:
    """Carry out one `--set dotted.key=value`; the value is YAML."""
    key, equals, text = assignment.partition("=")
    where = f"--set {shorten(assignment)}"
    if not equals:
        raise InputError(f"{where}: not KEY=VALUE; write pool.replicate=128, say")
    *sections, last = key.strip().split(".")
    target = values
    for section in sections:
        if not isinstance(target.setdefault(section, {}), dict):
            raise InputError(f"{where}: {section} holds no keys; set it whole")
        target = target[section]
    target[last] = parse_yaml(text, where)


def probe_file(name: str, root: Path) -> Path:
    """Find a probe: `tiny/base` is `probes/tiny/base.yaml`; `*.yaml` is a path.

    Raises:
        InputError: There is no such file.
    """
    path = (
        Path(name) if name.endswith((".yaml", ".yml")) else root / "probes" / f"{name}.yaml"
    )
    with reading(path):
        found = "\0" not in name and path.is_file()
    if not found:
        known = [known_name for known_name, _ in probe_files(root)]
        raise InputError(f"no probe {shorten(name)}; {nearest(name, known)}")
    return path


def probe_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of every probe below `probes/`, in order of the names."""
    folder = root / "probes"
    for path in sorted(folder.rglob("*.yaml")):
        yield path.relative_to(folder).with_suffix("").as_posix(), path


def probe_name(path: Path, root: Path) -> str:
    """Name the results folder: the path below `probes/`, else the file's own name.

    Raises:
        InputError: The name would break the lines of tables, or cannot stand in one.
    """
    folder = (root / "probes").resolve()
    resolved, name = path.resolve(), path.stem
    if resolved.is_relative_to(folder):
        name = resolved.relative_to(folder).with_suffix("").as_posix()
    if fault := fault_of_text(name):
        raise InputError(f"{path}: the file's name {fault}")
    return name


def load_probe(path: Path, assignments: Sequence[str] = ()) -> Probe:
    """Read a probe's YAML and carry out the `--set` assignments.

    Args:
        path: The YAML file.
        assignments: Texts `dotted.key=value`, the values in YAML.

    Raises:
        InputError: The file cannot be read, or its content cannot be used.
    """
    values = parse_yaml(read_text(path), str(path))
    if isinstance(values, dict):
        for assignment in assignments:
            assign(values, assignment)
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

    Raises:
        InputError: It cannot be known whether it exists.
    """
    for candidate in (Path(name), root / name):
        with reading(candidate):
            if candidate.exists():
                return candidate
    return None
