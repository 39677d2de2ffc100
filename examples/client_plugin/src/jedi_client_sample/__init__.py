"""One plug-in of every kind that jedi_client knows."""

from jedi_client_sample.gaudi import Gaudi
from jedi_client_sample.in_session import InSession
from jedi_client_sample.list_file import ListFile
from jedi_client_sample.seeds import SeedSplitter
from jedi_client_sample.sums import SumMerger

__all__ = ["Gaudi", "InSession", "ListFile", "SeedSplitter", "SumMerger"]
