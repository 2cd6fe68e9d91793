"""Counts with their uncertainty: Wilson intervals, medians, readable shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a share, as two shares; (0, 1) when nothing was counted."""
    if hits < 0 or hits > n:
        raise ValueError("hits must lie between 0 and n")
    if n == 0:
        return 0.0, 1.0
    share, square = hits / n, z * z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = z * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return (0.0 if hits == 0 else max(0.0, middle - half), 1.0 if hits == n else min(1.0, middle + half))


def show_share(hits: int, n: int) -> str:
    """`37 of 72 (51 %, 40-63 %)`."""
    if n == 0:
        return "0 of 0"
    low, high = wilson(hits, n)
    return f"{hits} of {n} ({100 * hits / n:.0f} %, 95 % {100 * low:.0f}-{100 * high:.0f} %)"


def median(values: Sequence[float]) -> float:
    """The middle value; 0 when there is none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]
