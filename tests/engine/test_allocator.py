"""Freed memory is kept between steps, in a process of its own, unless the environment says
otherwise.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from dppipe.engine.allocator import keep_freed_memory
told = keep_freed_memory()
def use(): torch.ones(1 << 22)
for _ in range(20): use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): use()
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 5 * (4 << 22) // 4096
"""What five times 16 MB are in pages."""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")


def told_and_faults(**settings):
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    told, faults = done.stdout.split()
    return told == "True", int(faults)


def test_memory_that_was_freed_is_used_again_without_asking_the_system():
    told, faults = told_and_faults()
    assert told
    assert faults < PAGES / 20


def test_the_environment_has_the_last_word():
    told, faults = told_and_faults(MALLOC_TRIM_THRESHOLD_="131072")
    assert not told
    assert faults > PAGES / 2
