"""Plant each bug of the list in a copy of the repository and see whether a test fails.

    python tests/mutants/run.py                         all bugs
    python tests/mutants/run.py --class durability      one class
    python tests/mutants/run.py --id noise-rounded-down one bug

Tests are run until one has caught the bug. The tree that this file
stands in is only read. Tests that don't end in time have neither caught
a bug nor let it pass: such a bug is listed apart, and the campaign
fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from planting import Bug, copy_tree, read_bugs

NOT_RUN = 4
"""What pytest ends with where it couldn't start: no test has seen the bug then."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What became of one bug."""

    bug: Bug
    caught_by: str | None
    """The first test that failed; None if no test did."""
    no_end: tuple[str, ...]
    """The tests that didn't end in time, where no others have caught the bug."""
    seconds: float

    @property
    def survived(self) -> bool:
        """Whether all tests ended, and none has caught the bug."""
        return self.caught_by is None and not self.no_end


def main() -> int:
    options = parse_options()
    bugs = [
        bug
        for bug in read_bugs()
        if options.id in (None, bug.id) and options.kind in (None, bug.kind)
    ]
    if not bugs:
        print("No bug has this id and class. They are listed in tests/mutants/planted/.")
        return 2
    with ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(
            lambda bug: try_bug(bug, likely=options.likely, timeout=options.timeout), bugs
        ):
            print(describe(result), flush=True)
            results.append(result)
    print_summary(results)
    broken = failing_without_bugs([result.caught_by for result in results if is_path(result)])
    for test in broken:
        print(f"{test} fails without any bug too, so what it caught doesn't count.")
    return 1 if broken or any(result.caught_by is None for result in results) else 0


class NoEnd(Exception):
    """Tests that didn't end in time."""


def is_path(result: Result) -> bool:
    """Return whether a test, or a file that couldn't be imported, has caught the bug."""
    return result.caught_by is not None and not result.caught_by.endswith(")")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant bugs and see whether tests catch them.")
    parser.add_argument("--id", help="plant one bug alone")
    parser.add_argument("--class", dest="kind", help="plant the bugs of one class alone")
    parser.add_argument("--jobs", type=int, default=1, help="bugs that are tried at once")
    parser.add_argument(
        "--likely", action="store_true", help="run only the first tests that each bug names"
    )
    parser.add_argument(
        "--timeout", type=int, default=900, help="seconds for each entry of a bug's tests"
    )
    return parser.parse_args()


def try_bug(bug: Bug, *, likely: bool, timeout: int) -> Result:
    """Run the bug's tests, the likeliest first, in a copy of the repository that holds the bug."""
    started = time.monotonic()
    caught_by = None
    no_end = []
    with tempfile.TemporaryDirectory(prefix="dppipe-bug-") as place:
        copy = copy_tree(Path(place))
        bug.plant(copy)
        for paths in bug.tests[:1] if likely else bug.tests:
            try:
                caught_by = first_failure(copy, paths.split(), timeout=timeout)
            except NoEnd:
                no_end.append(paths)
            if caught_by is not None:
                break
    late = () if caught_by is not None else tuple(no_end)
    return Result(bug, caught_by, late, time.monotonic() - started)


def first_failure(root: Path, paths: Sequence[str], *, timeout: int) -> str | None:
    """Return the first test that fails; a run that stops on its own counts as one."""
    found = run_tests(root, ["-x", *paths], timeout=timeout)
    if found is None:
        raise NoEnd
    if found.returncode in (0, 5):  # all passed, or nothing was selected
        return None
    if found.returncode == NOT_RUN:
        raise RuntimeError(f"{' '.join(paths)}: the tests couldn't start.\n{found.stderr}")
    failed = FAILED.search(found.stdout)
    return failed.group(1) if failed else f"{paths[0]} (exit {found.returncode})"


def failing_without_bugs(tests: Sequence[str | None]) -> list[str]:
    """Return which of these tests fail in a copy without any bug."""
    wanted = sorted({test for test in tests if test is not None})
    if not wanted:
        return []
    with tempfile.TemporaryDirectory(prefix="dppipe-bug-") as place:
        found = run_tests(copy_tree(Path(place)), wanted, timeout=None)
    return FAILED.findall(found.stdout) if found is not None else []


def run_tests(
    root: Path, arguments: Sequence[str], *, timeout: int | None
) -> subprocess.CompletedProcess[str] | None:
    """Run tests in a copy of the repository; None if they take too long."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "-rfE",
        *arguments,
    ]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def describe(result: Result) -> str:
    if result.survived:
        outcome = f"SURVIVED: {result.bug.breaks}"
    elif result.caught_by is None:
        outcome = f"NO END IN TIME: {', '.join(result.no_end)}"
    else:
        outcome = f"caught by {result.caught_by}"
    return f"{result.bug.kind:12} {result.bug.id:40} {result.seconds:4.0f} s  {outcome}"


def print_summary(results: Sequence[Result]) -> None:
    print()
    for kind in dict.fromkeys(result.bug.kind for result in results):
        print_rate(kind, [result for result in results if result.bug.kind == kind])
    print_rate("all", results)


def print_rate(name: str, results: Sequence[Result]) -> None:
    caught = sum(result.caught_by is not None for result in results)
    no_end = sum(bool(result.no_end) for result in results)
    unknown = f", {no_end} without an end in time" if no_end else ""
    print(f"{name:12} {caught} of {len(results)} caught ({caught / len(results):.0%}){unknown}")


if __name__ == "__main__":
    sys.exit(main())
