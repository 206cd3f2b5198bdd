-- A table of 12,000 rows of about 320 bytes, two indexes built over it, and look-ups by one of them.
CREATE TABLE item (id INTEGER PRIMARY KEY, key TEXT, value INTEGER, body TEXT);
INSERT INTO item (key, value, body)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
  SELECT printf('key-%08x', (i * 2654435761) % 4294967296), (i * 40503) % 65536, printf('%0280d', i)
  FROM n;
CREATE INDEX by_key ON item (key);
CREATE INDEX by_value ON item (value, key);
SELECT count(*), sum(b.value), sum(length(b.body))
  FROM item a JOIN item b ON b.key = printf('key-%08x', ((12001 - a.id) * 2654435761) % 4294967296)
  WHERE a.id % 4 = 0;
