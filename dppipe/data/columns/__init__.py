"""What a column of a table can be, and how its values become numbers: by stated constants only."""
