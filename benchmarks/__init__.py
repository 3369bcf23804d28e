"""How fast we are: beside others, against our own limit, and as the work grows."""
