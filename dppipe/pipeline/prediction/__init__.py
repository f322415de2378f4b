"""From raw records to predictions of a finished run."""
