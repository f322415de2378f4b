"""Rules that span several blocks of a spec; `between_blocks.py` lists them all."""
