"""What is tried on a plugin, one file a family. Read next: `table.py`, then `clippers.py`."""
