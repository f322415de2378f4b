"""Tables as files: their rows in blocks, column by column, and the place of a row in a message."""
