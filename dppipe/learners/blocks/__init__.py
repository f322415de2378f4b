"""Disjoint blocks of the training units: each record is in at most one, by a public rule.

A learner that trains something on each block reads them inside the gate's computation:

    for block in read_blocks(job.records, job.facts, count=k):  # inside compute()
        ...  # block.number from 0 to k - 1; block.inputs, block.targets: its usable records

There are always k blocks, in their order; one may be empty. What another record holds never decides
the block of a record: `assignment.py` says why.
"""
