"""Rules that span several blocks of a spec: each yields its problems, and all of them are reported
at once.

They need no record: only the options, and the number of records where it is public. Under
`add_remove` that number is secret, so nothing here asks for it. A refusal is a spec without proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dppipe.errors import DppipeError, Problem, SpecError
from dppipe.privacy.support import Verdict, verdict
from dppipe.spec.combinations import refuse_prelude, refuse_together
from dppipe.spec.messages.layout import Refusal
from dppipe.spec.public_data import public_data_problems
from dppipe.spec.rules.inputs import features_fit, learner_takes_inputs, model_takes_inputs
from dppipe.spec.rules.training import TRAINING_RULES
from dppipe.spec.spec import Spec


def check_rules(spec: Spec) -> list[Problem]:
    """Return every problem between the blocks of a spec."""
    rules: tuple[Callable[[Spec], Iterator[Problem]], ...]
    rules = (
        *TRAINING_RULES,
        _rate,
        _unit,
        _secret,
        _records,
        _length,
        _proof,
        _together,
        features_fit,
        model_takes_inputs,
    )
    if not spec.takes_steps:
        rules = (_learner_unit, _learner_devices, _learner_preludes, _learner_model, _secret)
        rules += (
            features_fit,
            model_takes_inputs,
            learner_takes_inputs,
            _learner_public,
            _learner_options,
        )
    return [problem for rule in rules for problem in rule(spec)]


def _learner_unit(spec: Spec) -> Iterator[Problem]:
    """Users are the unit where the data says whose each record is, and nowhere else."""
    if spec.budget != "none" and spec.budget.unit == "user" and not spec.data.by_users:
        yield Problem(
            ("budget", "unit"),
            "expected example, since the data doesn't say whose each record is, got user. State "
            "the users of the data, or take unit: example.",
        )


def _learner_preludes(spec: Spec) -> Iterator[Problem]:
    """What is released before the learner's own releases goes with the relation."""
    if spec.budget != "none":
        for prelude in spec.data.preludes:
            yield from refuse_prelude(prelude, spec.budget)


def _learner_options(spec: Spec) -> Iterator[Problem]:
    """A learner refuses what its proof doesn't cover, before anything is planned."""
    if any(features_fit(spec)):
        return  # that problem is reported first: the learner would see inputs of a wrong shape
    for place, message in spec.learner.problems(spec.public_facts()):
        yield Problem(place, message)


def _learner_model(spec: Spec) -> Iterator[Problem]:
    """Some learners train the last layer of a network only."""
    if "model" in spec.learner.takes:
        for option, message in spec.learner.model_problems(spec.model):
            yield Problem(("model", option), message)


def _learner_public(spec: Spec) -> Iterator[Problem]:
    """Public inputs have the shape of the run's records, and aren't the run's records."""
    return public_data_problems(spec.data, spec.learner.public_data)


def _learner_devices(spec: Spec) -> Iterator[Problem]:
    """A learner without steps runs in one process."""
    if spec.performance.devices * spec.performance.num_nodes > 1:
        yield Problem(
            ("performance", "devices"),
            f"expected one process for learner {spec.learner.kind!r}, got several. Only dp_sgd "
            "trains in several.",
        )


def _relation(spec: Spec) -> str:
    return "zero_out" if spec.budget == "none" else spec.budget.relation


def _rate(spec: Spec) -> Iterator[Problem]:
    """One of rate and batch size says it all where the number of records is public; where it is
    secret, both are needed.
    """
    rates = ("sample_rate", "expected_batch_size")
    secret = _relation(spec) == "add_remove"
    if secret and spec.sampler.kind == "full_batch":
        message = (
            "expected a sampler with sample_rate and expected_batch_size, got 'full_batch'. It "
            "divides by the number of records, "
        )
        yield Problem(
            ("sampler", "kind"),
            f"{message}which add_remove keeps secret. Take poisson, or relation: zero_out.",
        )
    if not set(rates) <= set(type(spec.sampler).model_fields):
        return
    given = [name for name in rates if getattr(spec.sampler, name) is not None]
    if secret and len(given) < 2:
        got = given[0] if given else "neither"
        message = (
            f"expected both sample_rate and expected_batch_size, got {got}. Under add_remove "
            "the number of records is secret, so"
        )
        yield Problem(("sampler",), f"{message} one doesn't give the other: write both.")
    elif not secret and len(given) == 2:
        message = (
            "expected one of sample_rate and expected_batch_size, got both. The number of "
            "records is public, so one gives"
        )
        yield Problem(
            ("sampler",), f"{message} the other: remove one. (relation: add_remove needs both.)"
        )


def _unit(spec: Spec) -> Iterator[Problem]:
    """Data is split by users where users are drawn, and nowhere else."""
    key = "user" if "user" in type(spec.data).model_fields else "users"
    if spec.data.by_users and not spec.sampler.needs_users:
        message = (
            "expected sampler: user, since the data is split by users, got "
            f"{spec.sampler.kind!r}. Or leave {key} out."
        )
        yield Problem(("data", key), message)
    if spec.sampler.needs_users and not spec.data.by_users:
        yield Problem(
            ("data", key),
            "expected data that says whose each record is, for sampler: user, got nothing. "
            "State it.",
        )


def _secret(spec: Spec) -> Iterator[Problem]:
    """A number that is secret isn't written down, where a message or a file could repeat it."""
    if _relation(spec) == "add_remove" and spec.data.records is not None:
        message = (
            f"expected nothing, got {spec.data.records}. Under add_remove the number of records "
            "is secret: leave it out."
        )
        yield Problem(("data", "records"), message)
    if (
        _relation(spec) == "add_remove"
        and spec.data.users is not None
        and "user" in type(spec.data).model_fields
    ):
        message = (
            f"expected nothing, got {spec.data.users}. Under add_remove the number of users is "
            "secret: leave it out."
        )
        yield Problem(("data", "users"), message)


def _records(spec: Spec) -> Iterator[Problem]:
    """Delta must be below 1/records, and a batch can't have more than all records.

    Records are users here if users are drawn.
    """
    if any(_unit(spec)):
        return  # that problem is reported first
    one = "user" if spec.data.by_users else "record"
    try:
        records = spec.public_count()
    except SpecError as error:
        yield from error.problems
        return
    except DppipeError as error:
        yield Problem(("data",), str(error))
        return
    except (
        OSError,
        ValueError,
    ) as error:  # of a kind that isn't dppipe's own: its text may contain a record's value
        yield Problem(
            ("data",),
            f"expected data whose number of records is known, got {type(error).__name__}.",
        )
        return
    if records == 0:
        yield Problem(
            ("data", "split"),
            f"expected at least one training {one}, got none. Raise the share of train.",
        )
        return
    try:
        rate, expected = spec.sampler.rate(records), spec.sampler.expected(records)
    except (DppipeError, ValueError) as error:
        if not any(_rate(spec)) and not any(_proof(spec)):  # else this would say the same again
            yield Problem(("sampler",), str(error).removeprefix("sampler: "))
        return
    if rate > 1:
        message = (
            f"expected at most {records}, the number of training {one}s, got {expected:g}. "
            "Lower it."
        )
        yield Problem(("sampler", "expected_batch_size"), message)
    elif (
        spec.budget != "none" and spec.budget.delta >= rate / expected
    ):  # 1/records, from public constants
        message = f"expected less than 1/{one}s = {rate / expected:.3g}, got {spec.budget.delta:g}."
        whole = "all of one user's records" if one == "user" else "a whole record"
        yield Problem(
            ("budget", "delta"),
            f"{message} At that delta a run may publish {whole}; choose a smaller one.",
        )


def _length(spec: Spec) -> Iterator[Problem]:
    """What is calibrated or scheduled needs a last step."""
    if spec.train.until is None:
        return
    if spec.budget == "none":
        yield Problem(
            ("train", "until"),
            "expected steps or epochs, got until: budget. There is no budget: say steps or epochs.",
        )
    elif spec.noise.noise_multiplier == "auto":
        message = (
            "expected steps or epochs, got until: budget with noise.noise_multiplier: auto. "
            "Noise is calibrated to a number"
        )
        yield Problem(("train", "until"), f"{message} of steps: give that, or a noise multiplier.")
    moving = {
        f"The noise schedule {spec.noise.kind!r}": not spec.noise.constant,
        "sampler.batch_schedule": spec.sampler.scheduled,
        "clipping.bound_schedule": spec.clipping.bound_schedule is not None,
    }
    for what in (name for name, moves in moving.items() if moves):
        message = f"expected steps or epochs, got until: budget. {what} needs a last step."
        yield Problem(("train", "until"), message)


def find_proof(spec: Spec) -> Verdict | None:
    """Say what is proven of this accountant for this sampler and relation; nothing where there is
    no budget.
    """
    if spec.budget == "none":
        return None
    return verdict(
        sampler=spec.sampler.kind,
        relation=spec.budget.relation,
        accountant=spec.accountant.kind,
        adaptive=spec.noise.adaptive,
        mechanism=spec.noise.mechanism,
    )


def _proof(spec: Spec) -> Iterator[Problem]:
    """The accountant has a proof, or at least an estimate, for what the sampler does."""
    found = find_proof(spec)
    if spec.budget != "none" and found is not None and found.status == "refused":
        got = (
            f"{spec.accountant.kind!r} with sampler {spec.sampler.kind!r} and relation "
            f"{spec.budget.relation!r}"
        )
        yield Refusal(
            ("accountant", "kind"),
            f"expected a pair with a proof, got {got}: {found.why}. Take {found.instead}.",
        )


def _together(spec: Spec) -> Iterator[Problem]:
    """All parts go together under one proof."""
    if spec.budget != "none":
        yield from refuse_together(
            spec.sampler,
            spec.clipping,
            spec.noise,
            budget=spec.budget,
            preludes=spec.data.preludes,
        )
