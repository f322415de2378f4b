"""The privacy statement: its facts, and every sentence that it can contain.

`statement.py` has the facts: the plan, and what the run adds to it. `claims.py`, `attacks.py`,
`comparisons.py`, `assumptions.py`, `exclusions.py` and `releases.py` turn them into sentences;
`text.py` lays these out as Markdown, `data.py` as JSON. `tests/statements/` reads every sentence
of real runs against their files.
"""
