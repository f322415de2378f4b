"""What the gate is made of: charges, noise, bounded values, and which release comes next."""
