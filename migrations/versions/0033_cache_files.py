"""Uploads of PanDA's clients."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"

_COMMENTS = {
    "filename": "name, which says nothing of the content",
    "username": "the user who uploaded it",
    "fsize": "bytes",
    "crc32": "CRC-32 of the unpacked content, as the end of a gzip file has it",
    "data": "the file, not checked yet",
    "creationtime": "time of the upload, or of its last use",
}


def upgrade() -> None:
    op.execute("""
CREATE TABLE jedi_cache_files (
  filename text NOT NULL CONSTRAINT jedi_cache_files_pk PRIMARY KEY,
  username text NOT NULL,
  fsize bigint NOT NULL,
  crc32 bigint NOT NULL,
  data bytea NOT NULL,
  creationtime timestamptz NOT NULL DEFAULT jedi_now())
""")
    op.execute("CREATE INDEX jedi_cache_files_user_ix ON jedi_cache_files (username, fsize, crc32)")
    op.execute(
        "COMMENT ON TABLE jedi_cache_files IS "
        "'files that PanDA''s clients upload before they submit a task'"
    )
    for column, meaning in _COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN jedi_cache_files.{column} IS '{meaning}'")


def downgrade() -> None:
    op.execute("DROP TABLE jedi_cache_files")
