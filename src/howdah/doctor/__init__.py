"""``howdah doctor``: what is wrong with a live installation, who is to blame, and what to do about it.

    examination (asks the server, check by check) → sessions · server · storage · lanes · workers (rows to findings)

A check is a statement of ``sql/reads/doctor`` and a pure function that judges its rows. ``catalogue`` lists what can be found.
"""

from howdah.doctor.catalogue import CATALOGUE, Entry
from howdah.doctor.examination import examine
from howdah.doctor.finding import Diagnosis, Finding, Unseen

__all__ = ["CATALOGUE", "Diagnosis", "Entry", "Finding", "Unseen", "examine"]
