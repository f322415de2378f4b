"""Privacy filters: costs that are chosen after seeing what was released."""
