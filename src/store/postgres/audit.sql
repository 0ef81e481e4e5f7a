-- The ledger against itself, in one snapshot. Sound: no row.
WITH live AS (
    SELECT l.sku, sum(l.qty) AS qty,
           coalesce(sum(l.qty) FILTER (WHERE r.status = 'confirmed'), 0) AS confirmed
    FROM reservation r JOIN reservation_line l ON l.reservation = r.id
    WHERE r.status IN ('held', 'confirmed')
    GROUP BY l.sku
), rows AS (
    SELECT sku, sum(available) AS available FROM stock GROUP BY sku
), moved AS (
    SELECT sku, shard, sum(CASE kind WHEN 'hold' THEN -qty WHEN 'confirm' THEN 0 ELSE qty END) AS qty,
           sum(qty) FILTER (WHERE kind IN ('load', 'restock')) AS loaded
    FROM movement GROUP BY sku, shard
)
SELECT 'units' AS finding, k.sku,
       format('loaded %s, available %s, held and confirmed %s',
              k.loaded, coalesce(s.available, 0), coalesce(v.qty, 0)) AS detail
FROM sku k LEFT JOIN rows s ON s.sku = k.sku LEFT JOIN live v ON v.sku = k.sku
WHERE k.loaded <> coalesce(s.available, 0) + coalesce(v.qty, 0)
UNION ALL
SELECT 'movements', s.sku,
       format('shard %s has %s available, its movements say %s', s.shard, s.available, m.qty)
FROM stock s LEFT JOIN moved m ON m.sku = s.sku AND m.shard = s.shard
WHERE s.available IS DISTINCT FROM coalesce(m.qty, 0)
UNION ALL
SELECT 'loaded', k.sku, format('%s loaded, the movements say %s', k.loaded, m.loaded)
FROM sku k LEFT JOIN (SELECT sku, sum(loaded) AS loaded FROM moved GROUP BY sku) m ON m.sku = k.sku
WHERE k.loaded IS DISTINCT FROM coalesce(m.loaded, 0)
UNION ALL
SELECT 'sold', k.sku, format('%s confirmed, %s counted', coalesce(v.confirmed, 0), c.units)
FROM sku k LEFT JOIN live v ON v.sku = k.sku
JOIN LATERAL (SELECT coalesce(sum(units), 0) AS units FROM sold WHERE sku = k.sku) c ON true
WHERE c.units <> coalesce(v.confirmed, 0)
UNION ALL
SELECT 'unknown sku', v.sku, format('%s units of it are held or confirmed', v.qty)
FROM live v WHERE NOT EXISTS (SELECT 1 FROM sku k WHERE k.sku = v.sku)
UNION ALL
SELECT 'no lines', '', format('reservation %s is %s and has none', r.id, r.status)
FROM reservation r
WHERE r.status IN ('held', 'confirmed')
  AND NOT EXISTS (SELECT 1 FROM reservation_line l WHERE l.reservation = r.id)
UNION ALL
SELECT 'orphan line', l.sku, format('line of reservation %s, which is not there', l.reservation)
FROM reservation_line l
WHERE NOT EXISTS (SELECT 1 FROM reservation r WHERE r.id = l.reservation)
LIMIT 1000
