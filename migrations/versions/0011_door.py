"""The service's callers: scopes of tokens, the audit, answers to requests that may be repeated."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("""
ALTER TABLE jedi_tokens ADD COLUMN name text, ADD COLUMN scope text, ADD COLUMN used_at timestamptz,
  ADD CONSTRAINT jedi_tokens_scope_ck CHECK (scope IN ('read', 'submit', 'all'));
COMMENT ON COLUMN jedi_tokens.name IS 'the user''s name for it';
COMMENT ON COLUMN jedi_tokens.scope IS 'its use: read, submit or all';
COMMENT ON COLUMN jedi_tokens.used_at IS 'last use, to the minute';

CREATE TABLE jedi_audit (
  audit_id bigserial, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  username text NOT NULL, way text NOT NULL, operation text NOT NULL, subject text,
  arguments jsonb NOT NULL, address text, request_id text,
  CONSTRAINT jedi_audit_pk PRIMARY KEY (audit_id));
CREATE INDEX jedi_audit_time_ix ON jedi_audit (creationtime);
COMMENT ON TABLE jedi_audit IS 'changes that callers of the service made';
COMMENT ON COLUMN jedi_audit.audit_id IS 'order';
COMMENT ON COLUMN jedi_audit.creationtime IS 'when';
COMMENT ON COLUMN jedi_audit.username IS 'the caller';
COMMENT ON COLUMN jedi_audit.way IS 'socket, token or oidc';
COMMENT ON COLUMN jedi_audit.operation IS 'the operation''s name';
COMMENT ON COLUMN jedi_audit.subject IS 'the object, such as task 17';
COMMENT ON COLUMN jedi_audit.arguments IS 'the arguments, long texts cut';
COMMENT ON COLUMN jedi_audit.address IS 'the caller''s address; unix:UID on the unix socket';
COMMENT ON COLUMN jedi_audit.request_id IS 'the request, as the access log names it';

CREATE TABLE jedi_requests (
  request_key text NOT NULL, digest text NOT NULL, answer text,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  CONSTRAINT jedi_requests_pk PRIMARY KEY (request_key));
CREATE INDEX jedi_requests_time_ix ON jedi_requests (creationtime);
COMMENT ON TABLE jedi_requests IS 'answers to requests with an Idempotency-Key';
COMMENT ON COLUMN jedi_requests.request_key IS 'the caller and his key';
COMMENT ON COLUMN jedi_requests.digest IS 'sha256 of operation and arguments';
COMMENT ON COLUMN jedi_requests.answer IS 'the answer in JSON';
COMMENT ON COLUMN jedi_requests.creationtime IS 'when'
""")


def downgrade() -> None:
    op.execute("""
DROP TABLE jedi_requests;
DROP TABLE jedi_audit;
ALTER TABLE jedi_tokens DROP CONSTRAINT jedi_tokens_scope_ck, DROP COLUMN name,
  DROP COLUMN scope, DROP COLUMN used_at
""")
