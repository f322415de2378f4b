"""The sampler that the options of `dppipe account` describe, as a run would make it; options without a use in it are refused."""

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
    """Make a sampler from the options that it knows; the rate comes from it, as in a run."""
    from dppipe.sampling.base import Sampler

    if sample_rate is not None and not 0 < sample_rate <= 1:
        raise UsageError(
            f"--sample-rate: expected a number above 0 and at most 1, got {sample_rate:g}."
        )
    kind = kind or ("full_batch" if sample_rate == 1 else "poisson")
    if sample_rate is not None and batch_size is not None:
        raise UsageError("--batch-size: expected it or --sample-rate, got both. Leave one out.")
    check_positive("--batch-size", batch_size)
    for name, value in (("--records", records), ("--max-batch-size", most)):
        if value is not None and value < 1:
            raise UsageError(f"{name}: expected a whole number of at least 1, got {value}.")
    loaded: Any = load_named("sampler", kind)
    fields = set(loaded.model_fields)
    _refuse_unused(kind, fields, sample_rate=sample_rate, batch_size=batch_size, most=most)
    if "sample_rate" not in fields and sample_rate is not None and records is not None:
        batch_size = _batch_size(loaded, sample_rate * records)
    whole = (
        int(batch_size) if batch_size is not None and batch_size == int(batch_size) else batch_size
    )
    options = {"sample_rate": sample_rate, "expected_batch_size": whole, "max_batch_size": most}
    data = {name: value for name, value in options.items() if name in fields and value is not None}
    try:
        made = loaded.from_data(data)
        rate = float(made.rate(records))
    except (ValueError, PrivacyRefusal, UsageError):
        if records is not None and whole is not None:
            raise UsageError(
                f"--batch-size: expected a whole number of records, 1 or more, with sampler {kind!r}, got {whole:g}."
            ) from None
        rate_too = "--sample-rate, or " if "sample_rate" in fields else ""
        given = {"--sample-rate": sample_rate, "--records": records, "--batch-size": batch_size}
        names = (
            ", ".join(name for name, value in given.items() if value is not None) or "none of them"
        )
        raise UsageError(
            f"account: expected {rate_too}--records and --batch-size for sampler {kind!r}, got {names}."
        ) from None
    if not (isinstance(made, Sampler) and 0 < rate <= 1):
        raise UsageError(
            f"account: expected a batch no larger than the {records} records, got {whole}."
        )
    return made, rate


def _batch_size(loaded: Any, expected: float) -> float:
    """Give the batch size that a sample rate asks for: rounded up where it must be whole, so that no lower rate is meant."""
    field = loaded.model_fields.get("expected_batch_size")
    return (
        math.ceil(expected * (1 - 1e-12))
        if field is not None and field.annotation is int
        else expected
    )


def _refuse_unused(
    kind: str,
    fields: set[str],
    *,
    sample_rate: float | None,
    batch_size: float | None,
    most: int | None,
) -> None:
    """Refuse an option that the sampler would not look at: its answer would be to another question."""
    if most is not None and "max_batch_size" not in fields:
        instead = "Leave it out, or take --sampler truncated_poisson."
        raise UsageError(
            f"--max-batch-size: expected none with sampler {kind!r}, got {most}. {instead}"
        )
    if "expected_batch_size" not in fields:
        given = {
            "--sample-rate": None if sample_rate == 1 else sample_rate,
            "--batch-size": batch_size,
        }
        for name, value in given.items():
            if value is not None:
                instead = "Leave it out, or take --sampler poisson."
                raise UsageError(
                    f"{name}: expected every record in every step with sampler {kind!r}, got {value:g}. {instead}"
                )


def load_named(family: str, kind: str) -> Any:
    """Load a kind; say which option names one that isn't there."""
    from dppipe.spec.kinds.registry import Registry

    try:
        return Registry().load(family, kind)
    except UsageError as error:
        raise UsageError(f"--{family}: {error}") from None


def check_positive(name: str, value: float | None) -> None:
    """Refuse an option whose number isn't one, or not above 0."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name}: expected a finite number > 0, got {value:g}.")
