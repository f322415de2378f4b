"""The page of a run: `report.html`, one file that is made from the run directory alone."""
