"""Ends of jobs that are nobody's fault, by reason code (core/reasons.py).

They do not count against maxAttempt of the inputs. Source:
docs/reference/retries-and-timeouts.md#attempts.
"""

from __future__ import annotations

NOBODYS_FAULT = frozenset(
    {
        "shut_down",
        "restored",
        "reassigned",
        # no pilot took the job, or none started it
        "waiting_timeout",
        "setup_timeout",
        "defined_timeout",
        "assigned_timeout",
        "activated_timeout",
        "throttled_timeout",
        "rebrokered",
        "idle_site",
        "t1_timeout",
        "t2_timeout",
        "sent_timeout",
        # the pilot was ended, not by its payload
        "pilot_terminated",
        "lost_node",
        "lost_site",
        # no site was left for its events, or for the merge
        "es_no_queue",
        "merge_closed",
        "given_back",
        "not_taken",
    }
)
"""All other ends count: the payload, its data or its limits may be the cause."""
