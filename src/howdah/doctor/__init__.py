"""``howdah doctor``: what is wrong with a live installation, what causes it, and what to do about it.

    examination (runs the checks) → sessions · server · storage · jobs · workers (turn rows into findings)

A check is a statement of ``sql/reads/doctor`` and a pure function that judges its rows. ``catalogue`` lists every finding.
"""

from howdah.doctor.catalogue import CATALOGUE, Entry
from howdah.doctor.examination import examine
from howdah.doctor.finding import Diagnosis, Finding, Unseen

__all__ = ["CATALOGUE", "Diagnosis", "Entry", "Finding", "Unseen", "examine"]
