"""The advice in words and as a table."""

import math

import pandas as pd

from mse_lab.answers.advice import BUDGET, CURVE_SIZES, CURVES, TOLERANCE, Advice
from mse_lab.mse.intervals import Estimate
from mse_lab.results.tables import columns_of

# Said of runs with norms only.
LAW_ONLY = "Norms only: by the exact law, which no replicates of this run confirm."


def _number(value: float) -> str:
    """Three digits, without an exponent from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def _with_interval(estimate: Estimate) -> str:
    low, high = (_number(end) for end in estimate[1:])
    return f"{_number(estimate.value)} ({low} to {high})"


def _percent(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "unknown"
    value, low, high = (f"{round(100 * end):,}" for end in estimate)
    return f"{value} % ({low} to {high})"


def _group_size_lines(advice: Advice) -> list[str]:
    best, size = advice.best, advice.recommended
    if not advice.unbounded:
        number = _with_interval(best)
        return [
            f"Best group size of GRPO-type: G* = 1 + sqrt(c3/c1) = {number}; use {size}."
        ]
    return [
        "Best group size of GRPO-type: G* has no upper bound on this evidence, for the",
        f"  interval on c1 covers zero; it is at least {best.low:.1f}. More than these "
        f"{advice.prompts} prompts would",
        f"  settle it. Until then use {size}: of the sizes below the smallest within "
        f"{100 * TOLERANCE:.0f} % of the best.",
    ]


def _constants_lines(advice: Advice) -> list[str]:
    return [
        f"  c1, gradients differ between prompts   {_with_interval(advice.between)}",
        f"  c2, completions differ in a prompt     {_with_interval(advice.oracle)}",
        f"  c3, the baseline is the group's mean   {_with_interval(advice.pairs)}",
    ]


def _mse_at(advice: Advice, size: int) -> Estimate:
    return advice.curves["grpo"][CURVE_SIZES.index(size)]


def _table_lines(advice: Advice) -> list[str]:
    origin = f"G = {advice.reference_size}" if advice.unbounded else "at G*"
    head = f"more samples than {origin}"
    lines = [
        f"GRPO-type with N = {BUDGET} completions (the percentages hold at any N):",
        f"{'G':>5} {'prompts':>8} {'MSE':>9}   {head:<26} groups of equal rewards",
    ]
    for size, more, silent in advice.rows:
        mse = _number(_mse_at(advice, size).value)
        equal = _percent(silent) if silent else "pools too small"
        cells = f"{BUDGET // size:>8} {mse:>9}   {_percent(more):<26} {equal}"
        lines.append(f"{size:>5} {cells}")
    return lines


def _vanilla_line(advice: Advice) -> str:
    value, low, high = advice.beats_vanilla_from
    if math.isinf(low):
        return "GRPO-type never beats vanilla (no baseline) here, whatever the group size."
    beats = "GRPO-type beats vanilla (no baseline)"
    if math.isinf(value):
        return f"{beats} at no G; the interval is from {low:.0f} on, to never."
    end = "never" if math.isinf(high) else f"{high:.0f}"
    return f"{beats} from G = {value:.0f} on ({low:.0f} to {end})."


def _baseline_lines(advice: Advice) -> list[str]:
    size = advice.recommended
    return [
        _vanilla_line(advice),
        f"Samples saved, for the same MSE as GRPO-type at G = {size}:",
        f"  vanilla at its best, G = 1           {_percent(advice.vanilla_saving)}",
        f"  each prompt's best constant baseline {_percent(advice.best_constant_saving)}; "
        f"over its value V {_percent(advice.best_constant_over_value)}",
    ]


def _scale_lines(advice: Advice) -> list[str]:
    size, scale, oracle = advice.recommended, advice.noise_scale, advice.noise_scale_oracle
    gradient2 = _with_interval(advice.gradient2)
    error = f"  relative error MSE/||g||^2 at G = {size}, N = {BUDGET}:"
    if math.isinf(scale.high):
        return [
            f"Mean gradient: ||g||^2 = {gradient2} covers zero: only bounds follow.",
            f"{error} at least {_number(advice.relative_error.low)}",
            f"  gradient noise scale: at least {_number(scale.low)} completions "
            f"(oracle, G = 1: {_number(oracle.low)})",
        ]
    return [
        f"Mean gradient: ||g||^2 = {gradient2}",
        f"{error} {_with_interval(advice.relative_error)}",
        f"  gradient noise scale: {_with_interval(scale)} completions; "
        f"oracle, G = 1: {_with_interval(oracle)}",
    ]


def _kinds_lines(advice: Advice) -> list[str]:
    lines = [f"Where the noise sits   {'T (c2)':<18} {'S':<18} zeta (c3)"]
    for name, *shares in advice.kinds:
        cells = " ".join(f"{_percent(share):<18}" for share in shares)
        lines.append(f"  {name:<20} {cells}".rstrip())
    return lines


def _trainer_lines(size: int) -> list[str]:
    return [
        f"TRL: GRPOConfig(num_generations={size})",
        f"verl: actor_rollout_ref.rollout.n={size}",
        f"OpenRLHF: --rollout.n_samples_per_prompt {size} "
        f"(older versions: --n_samples_per_prompt {size})",
    ]


def advice_text(advice: Advice) -> str:
    """Say the advice in words, for a terminal; ends with the trainers' settings."""
    level = f"{100 * advice.level:g} %"
    lines = [
        *([advice.warning] if advice.warning else []),
        f"Group size, from {advice.prompts} prompts; in brackets {level} intervals over "
        "prompts.",
        *([LAW_ONLY] if advice.law_only else []),
        *_group_size_lines(advice),
        *_constants_lines(advice),
        "",
        *_table_lines(advice),
        "",
        *_baseline_lines(advice),
        *_scale_lines(advice),
        *_kinds_lines(advice),
        "",
        "Holds for the gradient at this checkpoint, used as it is (plain SGD), with scores",
        "summed over tokens, for rewards and prompts like these. Trainers add batch rules.",
        *_trainer_lines(advice.recommended),
    ]
    return "\n".join(lines) + "\n"


def advice_table(advice: Advice) -> pd.DataFrame:
    """Make `advice.csv`: a row for each group size, its MSE at the budget.

    Columns: `mse` of GRPO-type; `more_samples_percent`, samples for the same MSE above
    those of the reference size; `silent_share`, groups whose rewards are all equal;
    `vanilla_mse`, `oracle_mse` and `best_constant_mse`.
    """
    rows = []
    for size, more, silent in advice.rows:
        place = CURVE_SIZES.index(size)
        percent = Estimate(*(100 * end for end in more))
        others = {
            f"{name.replace('-', '_')}_mse": advice.curves[name][place].value
            for name in CURVES[1:]
        }
        rows.append(
            {
                "group_size": size,
                "budget": BUDGET,
                **columns_of("mse", advice.curves["grpo"][place]),
                **columns_of("more_samples_percent", percent),
                **columns_of("silent_share", silent),
                **others,
            }
        )
    return pd.DataFrame(rows)
