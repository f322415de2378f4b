"""DP-SGD written down once more, example by example: what a whole run's weights are compared with.

Draws and noise are those of runs without chance (`living.py`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from whole_runs.files import Files
from whole_runs.plain import Table, parts_of, read_table

from dppipe.randomness.keystream import Keystream
from dppipe.spec.load import load_spec

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}


def expected_weights(run: Files) -> dict[str, Tensor]:
    """Train a run's model again, one example at a time, and return what its final weights should be."""
    table = read_table(run)
    train = parts_of(run, table)["train"]
    inputs = torch.tensor(numpy.asarray(table.inputs)[train], dtype=torch.float32)
    targets = torch.tensor(numpy.asarray(table.targets)[train])
    torch.manual_seed(run.config["seed"])
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(inputs.shape[1], 4), nn.Tanh(), nn.Linear(4, _outputs(table))
    )
    options = {
        name: value
        for name, value in run.config["optimizer"].items()
        if name not in ("kind", "schedule", "averaging")
    }
    optimizer = OPTIMIZERS[run.config["optimizer"]["kind"]](network.parameters(), **options)
    seen: list[dict[str, Tensor]] = []
    epochs: dict[int, Any] = {}
    for row in run.steps:
        step = row["step"]
        total = _clipped_sum(network, inputs, targets, _draw(run, step, len(train), epochs), row)
        pattern = torch.arange(1, total.numel() + 1, dtype=torch.float64).sin() / 2
        noisy = total + row["noise_multiplier"] * row["max_grad_norm"] * pattern
        _write_gradient(network, noisy / _expected_size(run, step))
        optimizer.step()
        seen.append({name: value.detach().clone() for name, value in network.named_parameters()})
    if run.config["optimizer"].get("averaging") is None:
        return seen[-1]
    tail = run.config["optimizer"]["averaging"]["start"]
    kept = [weights for number, weights in enumerate(seen) if number >= tail * len(seen)]
    return {name: torch.stack([each[name] for each in kept]).mean(0) for name in seen[-1]}


def _outputs(table: Table) -> int:
    return int(numpy.max(table.targets)) + 1


def _expected_size(run: Files, step: int) -> float:
    default = run.plan["expected_batch_size"]
    return run.planned("batches", "expected_batch_size", default=default)[step - 1]


def _draw(run: Files, step: int, count: int, epochs: dict[int, Any]) -> Any:
    """Return the records of a step, drawn by the spec's own sampler from a stream of this step."""
    sampler = load_spec(run.path / "config.yaml").sized_sampler()
    stream = Keystream(hashlib.sha256(str(step).encode()).digest())
    rate = run.planned("batches", "sample_rate", default=run.plan["sample_rate"])[step - 1]
    if not run.plan["epochwise"]:
        return sampler.draw(count, rate=rate, generator=stream)
    place = (step - 1) % run.plan["steps_per_epoch"]
    if place == 0:
        batches = sampler.draw_epoch(count, rate=rate, generator=stream)
        epochs.update(enumerate(batches))
    return epochs[place]


def _clipped_sum(
    network: nn.Module, inputs: Tensor, targets: Tensor, drawn: Any, row: dict[str, Any]
) -> Tensor:
    """Add up the gradients of single records, each cut to the bound that the row states."""
    total = torch.zeros(sum(value.numel() for value in network.parameters()), dtype=torch.float64)
    for place in drawn:
        loss = nn.functional.cross_entropy(network(inputs[place][None]), targets[place][None])
        found = torch.autograd.grad(loss, list(network.parameters()))
        gradient = torch.cat([value.flatten() for value in found]).double()
        total += gradient * min(1.0, row["max_grad_norm"] / float(gradient.norm()))
    return total


def _write_gradient(network: nn.Module, flat: Tensor) -> None:
    start = 0
    for parameter in network.parameters():
        part = flat[start : start + parameter.numel()]
        parameter.grad = part.reshape(parameter.shape).to(parameter.dtype)
        start += parameter.numel()
