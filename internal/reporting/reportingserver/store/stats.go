package store

import "context"

// Stats say how much there is.
type Stats struct {
	Projects, Resources, Events, Replaced int64
	// Stale are the resources whose spans have to be made anew.
	Stale int64
	// Bytes is the size of the database without its write-ahead log.
	Bytes int64
}

// Stats counts without reading what it counts: nothing is ever deleted.
func (s *Store) Stats(ctx context.Context) (st Stats, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(num), 0) FROM projects), (SELECT coalesce(max(num), 0) FROM resources),
(SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(seq), 0) FROM replaced_events), (SELECT count(*) FROM stale),
(SELECT page_count * page_size FROM pragma_page_count, pragma_page_size)`).
		Scan(&st.Projects, &st.Resources, &st.Events, &st.Replaced, &st.Stale, &st.Bytes)
	return st, err
}
