"""Alembic's entry. jedi.taskbuffer.schema.migrate hands over the connection of its transaction.

Developers draft the next step against a migrated database:

    JEDI_DATABASE_URL=... alembic -c migrations/alembic.ini revision --autogenerate -m "add ..."

and then write it out by hand: a step never imports the tables, which go on changing after it.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema.migrate import options


def run(connection: Connection) -> None:
    context.configure(connection=connection, **options())
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with connect(os.environ["JEDI_DATABASE_URL"]).begin() as tx:
        run(tx)
