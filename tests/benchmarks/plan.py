"""What `make bench` measures: all of it, or the quick form."""

from dataclasses import dataclass

from benchmarks.cases import LARGE_WIDE, MEDIUM, MEDIUM_WIDE, SMALL, SMALL_WIDE, TINY, Case

# Tokens of prompt and completion.
SHORT, LONG = (60, 8), (200, 64)
LONGER = ((60, 64), (200, 8), LONG)
SHAPES = (SHORT, *LONGER)
ENDS = (SHORT, LONG)
FEW = 16
DIMENSIONS = ("completions", "parameters", "prompts", "prompt length", "completion length")


@dataclass(frozen=True)
class Block:
    """One block to score."""

    case: Case  # The model and the shape.
    completions: int = 64  # N of the block.
    libraries: bool = True  # Whether the libraries are timed too.


@dataclass(frozen=True)
class Plan:
    """All that is measured."""

    rounds: int  # Ratios of which the median is taken.
    blocks: tuple[Block, ...]  # Blocks to score.
    long: tuple[tuple[int, int], ...]  # Tokens of long completions, and rounds of each.
    runs: tuple[tuple[Case, int], ...]  # Whole runs, each with its number of prompts.
    # Prompts and replicate pools of the runs on precision.
    precision: tuple[int, tuple[int, ...]]
    scaling: tuple[str, ...]  # Dimensions against which time and memory are measured.
    points: int  # Points of each.
    process_rounds: int  # Rounds of one process against two; 0 leaves them out.


# Libraries are timed where that takes minutes: on short prompts, and once on long ones.
# They store every score, 24 GB and more for 64 completions at 25M: there, they score 16.
FULL = Plan(
    rounds=5,
    blocks=(
        Block(TINY),
        *(Block(Case(SMALL, *shape), libraries=shape in ENDS) for shape in SHAPES),
        *(Block(Case(SMALL_WIDE, *shape), libraries=shape == SHORT) for shape in SHAPES),
        *(
            Block(Case(size, *SHORT), completions, libraries=completions == FEW)
            for size in (MEDIUM, MEDIUM_WIDE)
            for completions in (64, FEW)
        ),
        *(
            Block(Case(size, *shape), completions=FEW, libraries=False)
            for size in (MEDIUM, MEDIUM_WIDE)
            for shape in LONGER
        ),
        Block(Case(LARGE_WIDE, *SHORT), completions=FEW, libraries=False),
    ),
    long=((100, 3), (500, 3), (2000, 3), (8000, 1)),
    runs=(
        (TINY, 5),
        *((Case(SMALL, *shape), 1) for shape in ENDS),
        *((Case(size, *SHORT), 1) for size in (SMALL_WIDE, MEDIUM, MEDIUM_WIDE)),
    ),
    precision=(20, (16, 64, 256, 1024)),
    scaling=DIMENSIONS,
    points=4,
    process_rounds=5,
)

QUICK = Plan(
    rounds=5,
    blocks=(
        Block(TINY),
        Block(Case(SMALL, *SHORT)),
        Block(Case(SMALL_WIDE, *SHORT)),
        Block(Case(MEDIUM, *SHORT), libraries=False),
    ),
    long=((500, 3), (2000, 1)),
    runs=((TINY, 3), (Case(SMALL, *SHORT), 1)),
    precision=(8, (16, 64, 256)),
    scaling=DIMENSIONS[:2],
    points=3,
    process_rounds=0,
)
