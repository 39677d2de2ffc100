"""jedi_cache_files: uploads of PanDA's clients, each under a name that nobody guesses."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


class CacheFile(NamedTuple):
    """An upload: its user and its content, which nobody has checked yet."""

    user_name: str
    data: bytes


_PUT = changes("""
INSERT INTO jedi_cache_files (filename, username, fsize, crc32, data)
VALUES (:name, :user, :size, :crc32, :data)
ON CONFLICT (filename) DO UPDATE
SET fsize = excluded.fsize, crc32 = excluded.crc32, data = excluded.data,
  creationtime = excluded.creationtime
WHERE jedi_cache_files.username = excluded.username
  AND (:overwrite OR jedi_cache_files.data = excluded.data)
""")


def put(
    tx: Connection, name: str, user_name: str, crc32: int, data: bytes, *, overwrite: bool
) -> bool:
    """Keep an upload; False: another one has this name. The same content again is no other one;
    `overwrite`: neither is another content of the same user."""
    values = {"name": name, "user": user_name, "size": len(data), "crc32": crc32}
    return _PUT.run(tx, **values, data=data, overwrite=overwrite) == 1


KEEP = returns(str)("""
-- The name of a user's upload of this size and CRC-32, which is kept as long as a new one; None:
-- there is none.
UPDATE jedi_cache_files SET creationtime = jedi_now() WHERE filename = (
  SELECT filename FROM jedi_cache_files
  WHERE username = :user AND fsize = :size AND crc32 = :crc32
  ORDER BY creationtime DESC LIMIT 1)
RETURNING filename
""")


GET = returns(CacheFile)("""
-- An upload by its name.
SELECT username, data FROM jedi_cache_files WHERE filename = :name
""")


_USED = returns(int)("""
SELECT CAST(coalesce(sum(fsize), 0) AS bigint) FROM jedi_cache_files
WHERE username = :user AND filename <> :name
""")


def used_bytes(tx: Connection, user_name: str, but: str) -> int:
    """Bytes of all uploads of a user but one. Uploads of one user count one after the other."""
    _LOCK.run(tx, user=user_name)
    return _USED.value(tx, user=user_name, name=but)


_LOCK = changes("SELECT pg_advisory_xact_lock(hashtextextended('cache of ' || :user, 0))")
