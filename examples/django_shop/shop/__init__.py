"""A shop that exports its orders in the background."""
