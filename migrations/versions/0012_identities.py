"""Users that an identity provider named."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute("""
CREATE TABLE jedi_identities (
  username text NOT NULL, issuer text NOT NULL, subject text NOT NULL,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  CONSTRAINT jedi_identities_pk PRIMARY KEY (username));
COMMENT ON TABLE jedi_identities
  IS 'users that an identity provider named, whose roles follow their groups';
COMMENT ON COLUMN jedi_identities.username IS 'the user';
COMMENT ON COLUMN jedi_identities.issuer IS 'the provider''s URL';
COMMENT ON COLUMN jedi_identities.subject IS 'the provider''s id of the person';
COMMENT ON COLUMN jedi_identities.creationtime IS 'when'
""")


def downgrade() -> None:
    op.execute("DROP TABLE jedi_identities")
