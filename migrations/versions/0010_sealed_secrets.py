"""No secret of a webhook is in clear: what an older release wrote is sealed with the home's key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

revision = "0010"
down_revision = "0009"

CLEAR = sa.text(
    "SELECT username, webhook_secret FROM jedi_users WHERE starts_with(webhook_secret, 'whsec_')"
)
PUT = sa.text("UPDATE jedi_users SET webhook_secret = :kept WHERE username = :user")
CHECK = "jedi_users_webhook_secret_ck"
COMMENT = "COMMENT ON COLUMN jedi_users.webhook_secret IS '{}'"


def upgrade() -> None:
    """Seal, then refuse clear ones. A database without clear ones needs no key."""
    tx = op.get_bind()
    clear = tx.execute(CLEAR).all()
    if clear:
        seal = context.config.attributes["seal"]
        rows = [{"user": user, "kept": seal(user, secret)} for user, secret in clear]
        tx.execute(PUT, rows)
    op.execute(
        f"ALTER TABLE jedi_users ADD CONSTRAINT {CHECK} "
        "CHECK (NOT starts_with(webhook_secret, 'whsec_'))"
    )
    op.execute(COMMENT.format("salt of the secret that signs them"))


def downgrade() -> None:
    """Sealed ones stay: the older release reports that it lacks their key, and signs nothing
    wrongly."""
    op.execute(f"ALTER TABLE jedi_users DROP CONSTRAINT {CHECK}")
    op.execute(COMMENT.format("signs them"))
