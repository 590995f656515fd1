-- Most calls have no run but themselves: their events have the same text as run and
-- subject, and are found by the index of subjects. The index of runs holds the others
-- alone, so that an event of such a call pays for one index less.
DROP INDEX events_run;
CREATE INDEX events_run ON events (run) WHERE run <> '' AND run <> subject;

-- One tree, and not two, for calls that are open.
CREATE TABLE open_calls_anew (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    run         TEXT NOT NULL,
    actor       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO open_calls_anew (proposal_id, session, run, actor) SELECT proposal_id, session, run, actor FROM open_calls;
DROP TABLE open_calls;
ALTER TABLE open_calls_anew RENAME TO open_calls;

-- Calls that were added to their session last: each then writes one page, and not one of
-- session_calls and of each of its indexes. The writer moves them there by the page
-- (sessions.go). The view calls has all.
CREATE TABLE recent_calls (
    proposal_id TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    of_run      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The casts give both halves of calls columns of the same kind, without which SQLite
-- would not read a page of calls from their ends.
CREATE VIEW newest_calls AS
 SELECT session, proposal_id, of_run,
  CAST(coalesce((SELECT principal FROM sessions WHERE id = session), '') AS TEXT) AS principal,
  CAST(coalesce((SELECT on_behalf_of FROM sessions WHERE id = session), '') AS TEXT) AS on_behalf_of
 FROM recent_calls r
 WHERE NOT EXISTS (SELECT 1 FROM session_calls s WHERE s.session = r.session AND s.proposal_id = r.proposal_id);

CREATE VIEW calls AS
 SELECT session, proposal_id, of_run, principal, on_behalf_of FROM session_calls
 UNION ALL SELECT session, proposal_id, of_run, principal, on_behalf_of FROM newest_calls;
