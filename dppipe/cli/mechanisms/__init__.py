"""`dppipe account --mechanism`: single mechanisms without a sampler, one a file."""
