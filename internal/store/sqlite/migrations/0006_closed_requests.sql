-- What policy evaluated again, with the call's plaintext arguments, goes when the
-- record is closed. Records that were closed before this version gave it up
-- are caught up here.
UPDATE approvals SET request = NULL WHERE state NOT IN ('pending', 'allowed') AND request IS NOT NULL;
