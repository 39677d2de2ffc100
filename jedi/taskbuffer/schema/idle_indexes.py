"""Indexes of the few tasks and datasets that idle agents look for, among many that need nothing;
and of live tasks by reason, for counts."""

from __future__ import annotations

from sqlalchemy import Index, text

from jedi.taskbuffer.db.sql_lists import TASK_FINAL
from jedi.taskbuffer.schema.document_tables import datasets, tasks

# orders.any_wanting: masters with files for jobs
Index(
    "jedi_datasets_wanting_ix",
    datasets.c.jedi_task_id,
    postgresql_where=text(
        "masterid IS NULL AND status IN ('ready', 'running') "
        "AND nfilestobeused > (nfilesused + nfilesmissing)"
    ),
)
# datasets.any_to_feed: open input. All ids are above 0: statements that do not say so, and look
# datasets up by name, can't take this index
Index(
    "jedi_datasets_open_ix",
    datasets.c.state_check_time,
    postgresql_where=text("type = 'input' AND status = 'running' AND datasetid > 0"),
)
# orders.any_wanting, merging.claim, merging.stuck
Index(
    "jedi_tasks_merging_ix",
    tasks.c.status,
    postgresql_where=text("""rules @> '{"merge_output": true}'"""),
)
# ending.any_processed: masters that keep their tasks at work, and tasks with parents that have not
# ended
Index("jedi_datasets_unprocessed_ix", datasets.c.jedi_task_id, postgresql_where=text("unprocessed"))
Index(
    "jedi_tasks_children_ix",
    tasks.c.parent_tid,
    postgresql_where=text(f"parent_tid <> jeditaskid AND status NOT IN ({TASK_FINAL})"),
)
# loads.TASKS: counts of live tasks by reason, without a look at the tasks
Index(
    "jedi_tasks_reason_ix",
    tasks.c.status,
    tasks.c.reason_code,
    tasks.c.workqueue_id,
    tasks.c.state_change_time,
    postgresql_where=text(f"status NOT IN ({TASK_FINAL})"),
)
