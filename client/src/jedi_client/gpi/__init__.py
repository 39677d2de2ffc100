"""Ganga's interface: jobs that people hold in their hands, on this machine or in JEDI."""
