"""The sampler that the options of `dppipe account` describe, made as a run would make it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dppipe.errors import PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from dppipe.sampling.base import Sampler


def sampler_from_options(
    kind: str | None,
    *,
    sample_rate: float | None,
    records: int | None,
    batch_size: float | None,
    most: int | None,
) -> tuple[Sampler, float]:
    """Return the sampler and its rate, which comes from it as in a run.

    Options that the sampler doesn't use are refused.
    """
    kind = kind or ("full_batch" if sample_rate == 1 else "poisson")
    _check_ranges(sample_rate=sample_rate, records=records, batch_size=batch_size, most=most)
    loaded: Any = load_named("sampler", kind)
    fields = set(loaded.model_fields)
    _refuse_unused(kind, fields, sample_rate=sample_rate, batch_size=batch_size, most=most)
    given = {"--sample-rate": sample_rate, "--records": records, "--batch-size": batch_size}
    if "sample_rate" not in fields and sample_rate is not None and records is not None:
        batch_size = _batch_size(loaded, sample_rate * records)
    if batch_size is not None and batch_size == int(batch_size):
        batch_size = int(batch_size)
    options = {
        "sample_rate": sample_rate,
        "expected_batch_size": batch_size,
        "max_batch_size": most,
    }
    data = {name: value for name, value in options.items() if name in fields and value is not None}
    return _made(loaded, data, kind, records=records, batch_size=batch_size, given=given)


def _made(
    loaded: Any,
    data: dict[str, Any],
    kind: str,
    *,
    records: int | None,
    batch_size: float | None,
    given: dict[str, Any],
) -> tuple[Sampler, float]:
    """Make the sampler; say which options are missing or don't fit."""
    from dppipe.sampling.base import Sampler

    try:
        made = loaded.from_data(data)
        rate = float(made.rate(records))
    except (ValueError, PrivacyRefusal, UsageError):
        if records is not None and batch_size is not None:
            raise UsageError(
                "--batch-size: expected a whole number of records, 1 or more, "
                f"with sampler {kind!r}, got {batch_size:g}."
            ) from None
        rate_too = "--sample-rate, or " if "sample_rate" in loaded.model_fields else ""
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise UsageError(
            f"account: expected {rate_too}--records and --batch-size for sampler {kind!r}, "
            f"got {names or 'none of them'}. One release without a sampler has a --mechanism alone."
        ) from None
    if not (isinstance(made, Sampler) and 0 < rate <= 1):
        raise UsageError(
            f"account: expected a batch no larger than the {records} records, got {batch_size}."
        )
    return made, rate


def _check_ranges(
    *,
    sample_rate: float | None,
    records: int | None,
    batch_size: float | None,
    most: int | None,
) -> None:
    if sample_rate is not None and not 0 < sample_rate <= 1:
        raise UsageError(
            f"--sample-rate: expected a number above 0 and at most 1, got {sample_rate:g}."
        )
    if sample_rate is not None and batch_size is not None:
        raise UsageError("--batch-size: expected it or --sample-rate, got both. Leave one out.")
    check_positive("--batch-size", batch_size)
    for name, value in (("--records", records), ("--max-batch-size", most)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected a whole number of at least 1, got {value}.")


def _batch_size(loaded: Any, expected: float) -> float:
    """Return the batch size that a sample rate means.

    It is rounded up where it must be whole, so that the rate isn't lower than the given one.
    """
    field = loaded.model_fields.get("expected_batch_size")
    if field is not None and field.annotation is int:
        return math.ceil(expected * (1 - 1e-12))
    return expected


def _refuse_unused(
    kind: str,
    fields: set[str],
    *,
    sample_rate: float | None,
    batch_size: float | None,
    most: int | None,
) -> None:
    """Refuse an option that the sampler would ignore: the answer would be to another question."""
    if most is not None and "max_batch_size" not in fields:
        raise UsageError(
            f"--max-batch-size: expected none with sampler {kind!r}, got {most}. "
            "Leave it out, or take --sampler truncated_poisson."
        )
    if "expected_batch_size" in fields:
        return
    given = {
        "--sample-rate": None if sample_rate == 1 else sample_rate,
        "--batch-size": batch_size,
    }
    for name, value in given.items():
        if value is not None:
            raise UsageError(
                f"{name}: expected every record in every step with sampler {kind!r}, "
                f"got {value:g}. Leave it out, or take --sampler poisson."
            )


def load_named(family: str, kind: str) -> Any:
    """Load a kind; if there is none of that name, the error names the option."""
    from dppipe.spec.kinds.registry import Registry

    try:
        return Registry().load(family, kind)
    except UsageError as error:
        raise UsageError(f"--{family}: {error}") from None


def check_positive(name: str, value: float | None) -> None:
    """Refuse an option whose value isn't a finite number above 0."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name}: expected a finite number > 0, got {value:g}.")
