"""Probes: does the code do what is charged? Each tests one part of a release on made-up records."""
