"""A payload in Python that gets ranges of events while it runs (docs/payload-events.md).

Its argument, if it has one, is the time of an event in seconds: real events take longer than these.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

EVENT_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
requests = os.fdopen(int(os.environ["JEDI_EVENTS_OUT"]), "w")
answers = os.fdopen(int(os.environ["JEDI_EVENTS_IN"]))


def ask(request):
    """Write a request; the pilot's answer."""
    print(json.dumps(request), file=requests, flush=True)
    return json.loads(answers.readline())


def simulate(line):
    """An event: its number, its particles, and the sum of their energies."""
    time.sleep(EVENT_S)
    number, seed = line.split()
    dice = random.Random(seed)
    energies = [dice.expovariate(1 / 20) for _ in range(dice.randint(1, 5))]
    return f"{number} {len(energies)} {sum(energies):.3f}\n"


while ranges := ask({"get": 4})["ranges"]:
    for one in ranges:
        seeds = Path(one["lfn"]).read_text().splitlines()[one["start"] - 1 : one["end"]]
        output = f"events.{one['lfn']}.{one['start']}.txt"
        try:
            Path(output).write_text("".join(map(simulate, seeds)))
        except ValueError as error:
            ask({"failed": one["id"], "why": str(error)})
        else:
            ask({"finished": one["id"], "outputs": [output]})
