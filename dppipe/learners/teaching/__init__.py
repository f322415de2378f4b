"""What PATE is made of: how votes are charged, teachers on disjoint blocks, and a student.

Read first: `vote_bounds.py`, how far one unit moves the votes. Then `votes.py`, which counts them,
`training.py`, which trains teachers and student, and `options.py`.
"""
