"""Did you mean: near misses, and the names that other tools use.

One spelling is accepted; the others are only pointed out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)
_POWER = re.compile(r"10(?:\^|\*\*)\(?([-+]?\d{1,3})\)?", re.ASCII)

# Names of other tools (Opacus, TF Privacy, JAX Privacy, fastDP, Lightning, ...) and common slips ->
# ours, with its block.
_KEYS = {
    "accelerator": "performance.accelerator",
    "accumulate_grad_batches": "performance.physical_batch_size",
    "batch_size": "sampler.expected_batch_size",
    "check_val_every_n_epoch": "train.validate_every",
    "checkpoint_interval": "train.checkpoint_every",
    "clip_norm": "clipping.max_grad_norm",
    "clipping_bound": "clipping.max_grad_norm",
    "clipping_norm": "clipping.max_grad_norm",
    "dataset": "data",
    "datamodule": "data",
    "delta": "budget.delta",
    "devices": "performance.devices",
    "differential_privacy": "budget",
    "eps": "budget.epsilon",
    "epsilon": "budget.epsilon",
    "gradient_clip_val": "clipping.max_grad_norm",
    "l2_clip_norm": "clipping.max_grad_norm",
    "l2_norm_clip": "clipping.max_grad_norm",
    "learning_rate": "optimizer.lr",
    "lot_size": "sampler.expected_batch_size",
    "lr": "optimizer.lr",
    "lr_scheduler": "optimizer.schedule",
    "max_epochs": "train.epochs",
    "max_norm": "clipping.max_grad_norm",
    "max_physical_batch_size": "performance.physical_batch_size",
    "max_steps": "train.steps",
    "microbatch_size": "performance.physical_batch_size",
    "n_epochs": "train.epochs",
    "neighboring_relation": "budget.relation",
    "neighbouring_relation": "budget.relation",
    "num_nodes": "performance.num_nodes",
    "num_epochs": "train.epochs",
    "num_steps": "train.steps",
    "optim": "optimizer",
    "per_sample_max_grad_norm": "clipping.max_grad_norm",
    "physical_batch_size": "performance.physical_batch_size",
    "poisson_sampling": "sampler",
    "privacy": "budget",
    "sampling_prob": "sampler.sample_rate",
    "sampling_probability": "sampler.sample_rate",
    "sampling_rate": "sampler.sample_rate",
    "secure_mode": "noise.secure",
    "seed_everything": "seed",
    "sigma": "noise.noise_multiplier",
    "strategy": "performance.strategy",
    "target_delta": "budget.delta",
    "target_epsilon": "budget.epsilon",
    "train_steps": "train.steps",
    "trainer": "train",
    "val_check_interval": "train.validate_every",
    "virtual_batch_size": "performance.physical_batch_size",
    "weight_init_seed": "seed",
}

_VALUES = {
    "add_or_remove": "add_remove",
    "add_or_remove_one": "add_remove",
    "all-layer": "flat",
    "auto-s": "automatic",
    "autos": "automatic",
    "glw": "pld",
    "layer-wise": "layerwise",
    "moments": "rdp",
    "moments_accountant": "rdp",
    "normalised": "automatic",
    "normalized": "automatic",
    "param-wise": "layerwise",
    "per_layer": "layerwise",
    "prv": "pld",
    "quantile": "adaptive",
    "replace_special": "zero_out",
    "uniform": "poisson",
    "32": "32-true",
    "bf16": "bf16-mixed",
}


def suggest_key(key: str, known: Iterable[str]) -> str:
    """Suggest what an unknown key may have meant: ` Did you mean ...?`, or nothing."""
    known = list(known)
    ours = _KEYS.get(key.lower().replace("-", "_"))
    if ours and ours.split(".")[-1] in known:
        return _did_you_mean(repr(ours.split(".")[-1]))
    close = get_close_matches(key, known, n=1)
    if close:
        return _did_you_mean(repr(close[0]))
    if ":" in key:
        return " A colon ends a key only where a space follows it."
    return _did_you_mean(ours) if ours else ""


def suggest_kind(value: str, known: Iterable[str]) -> str:
    """Suggest which of the known names was meant: ` Did you mean ...?`, or nothing."""
    known = list(known)
    ours = _VALUES.get(value.lower())
    close = [ours] if ours in known else get_close_matches(value.lower(), known, n=1)
    return _did_you_mean(repr(close[0])) if close else ""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Suggest which of the user's own names was meant: ` Did you mean ...?`, or nothing."""
    spelled = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), spelled, n=1)
    return _did_you_mean(repr(spelled[close[0]])) if close else ""


def suggest_number(text: str) -> str:
    """Say how a text that is nearly a number is written as one, or nothing."""
    plain = text.strip().replace("_", "").replace(",", "")
    if _NUMBER.fullmatch(plain):
        return "Write it as a plain number, without quotes or separators."
    if _NUMBER.fullmatch(plain.removesuffix("%").rstrip()):
        return f"Write a percentage as a share: {float(plain.removesuffix('%')) / 100:g}."
    if power := _POWER.fullmatch(plain):
        return f"Write a power of ten as 1e{int(power[1])}."
    if _NUMBER.fullmatch(plain.split(" ")[0]):
        return "Write the number alone, without a unit."
    return ""


def suggest_truth(text: str) -> str:
    """Say which of true and false a word of another language stands for, or nothing."""
    word = text.strip().lower()
    return (
        "Write true."
        if word in ("yes", "on", "y", "true")
        else "Write false."
        if word in ("no", "off", "n", "false")
        else ""
    )


def _did_you_mean(name: str) -> str:
    return f" Did you mean {name}?"
