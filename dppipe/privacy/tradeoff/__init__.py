"""What a privacy curve leaves to any attacker: trade-offs between two kinds of error."""
