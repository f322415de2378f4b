"""Audits and attacks: what an experiment says about a claim, and what an attacker can do."""
