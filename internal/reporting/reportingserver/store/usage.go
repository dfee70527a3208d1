package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"math/big"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// Sums are what all resources of a project used in a period.
type Sums struct {
	usage.Totals
	// Findings counts those with a time in the period, by code.
	Findings map[string]int
}

// Usage adds up what a project used in a period, of all that was stored before.
func (s *Store) Usage(ctx context.Context, p Project, period usage.Period) (*Sums, error) {
	if err := s.Refresh(ctx, p.ID); err != nil {
		return nil, err
	}
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // nothing is written
	key, err := versionOf(ctx, tx, p, period)
	if err != nil {
		return nil, err
	}
	if sums, ok := s.sums.get(key); ok {
		return sums, nil
	}
	sums := &Sums{Findings: map[string]int{}}
	for _, add := range []func(context.Context, *sql.Tx, Project, usage.Period, *Sums) error{addSpans, addCounters, addFindings, countResources} {
		if err := add(ctx, tx, p, period, sums); err != nil {
			return nil, err
		}
	}
	// What came in since Refresh is in the version and not in the sums.
	var stale bool
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM stale WHERE project = ?)`, p.Num).Scan(&stale)
	if err == nil && !stale {
		s.sums.put(key, sums)
	}
	return sums, err
}

// bounds are the first moment of a period and the first after it.
func bounds(p usage.Period) (from, end int64) { return p.From.UnixNano(), p.End().UnixNano() }

// within is the condition for spans that have a part in a period.
const within = `s.begins < ? AND s.ends > ?`

func addSpans(ctx context.Context, tx *sql.Tx, p Project, period usage.Period, sums *Sums) error {
	from, end := bounds(period)
	if end <= from {
		return nil
	}
	// Seconds and the rest are added up apart: nanoseconds alone would not fit.
	rows, err := tx.QueryContext(ctx, `SELECT x.type, x.state, x.size, x.unknown, t.seconds, t.rest FROM (
    SELECT shape, sum(lasted / 1000000000) AS seconds, sum(lasted % 1000000000) AS rest FROM (
        SELECT s.shape, min(s.ends, ?) - max(s.begins, ?) AS lasted FROM spans s WHERE s.project = ? AND `+within+`
    ) GROUP BY shape
) t JOIN shapes x ON x.num = t.shape`, end, from, p.Num, end, from)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(r row) (none struct{}, err error) {
		var typ event.ResourceType
		var in usage.Interval
		var size, unknown []byte
		var seconds, rest int64
		if err := r.Scan(&typ, &in.State, &size, &unknown, &seconds, &rest); err != nil {
			return none, err
		}
		if err := json.Unmarshal(size, &in.Size); err != nil {
			return none, err
		}
		if err := json.Unmarshal(unknown, &in.Unknown); err != nil {
			return none, err
		}
		sum := big.NewRat(rest, int64(time.Second))
		in.Seconds = usage.AmountOf(sum.Add(sum, new(big.Rat).SetInt64(seconds)))
		sums.AddInterval(typ, in)
		return none, nil
	})
	return err
}

func addCounters(ctx context.Context, tx *sql.Tx, p Project, period usage.Period, sums *Sums) error {
	from, end := bounds(period)
	rows, err := tx.QueryContext(ctx, `SELECT r.type, c.counter, c.amount, count(*) FROM counts c JOIN resources r ON r.num = c.resource
WHERE c.project = ? AND c.time >= ? AND c.time < ? GROUP BY r.type, c.counter, c.amount`, p.Num, from, end)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(r row) (none struct{}, err error) {
		var typ event.ResourceType
		var counter string
		var amount usage.Amount
		var times int64
		if err := r.Scan(&typ, &counter, &amount, &times); err != nil {
			return none, err
		}
		sums.AddCounter(typ, counter, new(big.Rat).Mul(amount.Rat(), new(big.Rat).SetInt64(times)))
		return none, nil
	})
	return err
}

func addFindings(ctx context.Context, tx *sql.Tx, p Project, period usage.Period, sums *Sums) error {
	from, end := bounds(period)
	rows, err := tx.QueryContext(ctx, `SELECT code, count(*) FROM findings WHERE project = ? AND time >= ? AND time < ? GROUP BY code`, p.Num, from, end)
	if err != nil {
		return err
	}
	_, err = collect(rows, func(r row) (none struct{}, err error) {
		var code string
		var n int
		err = r.Scan(&code, &n)
		sums.Findings[code] = n
		return none, err
	})
	return err
}

func countResources(ctx context.Context, tx *sql.Tx, p Project, period usage.Period, sums *Sums) error {
	from, end := bounds(period)
	if end <= from {
		return nil
	}
	return tx.QueryRowContext(ctx, `SELECT count(*) FROM (
    SELECT s.resource FROM spans s WHERE s.project = ? AND `+within+` UNION SELECT c.resource FROM counts c WHERE c.project = ? AND c.time >= ? AND c.time < ?)`,
		p.Num, end, from, p.Num, from, end).Scan(&sums.Resources)
}

// Used lists resources that used anything in a period, by type and id, after one of
// them.
func (s *Store) Used(ctx context.Context, p Project, period usage.Period, afterType, afterID string, limit int) ([]Resource, error) {
	from, end := bounds(period)
	if end <= from {
		return nil, nil
	}
	return s.chosen(ctx, p, `(r.type, r.id) > (?, ?) AND (EXISTS (SELECT 1 FROM spans s WHERE s.project = r.project AND s.resource = r.num AND `+within+`)
OR EXISTS (SELECT 1 FROM counts c WHERE c.resource = r.num AND c.time >= ? AND c.time < ?))`, limit, afterType, afterID, end, from, from, end)
}

// Living lists resources that existed at a time, by type and id.
func (s *Store) Living(ctx context.Context, p Project, at time.Time, limit int) ([]Resource, error) {
	return s.chosen(ctx, p, `EXISTS (SELECT 1 FROM spans s WHERE s.project = r.project AND s.resource = r.num AND s.begins <= ? AND s.ends > ?)`,
		limit, at.UnixNano(), at.UnixNano())
}

// chosen builds the timelines of resources for which a condition holds. Spans are
// as of the latest Refresh.
func (s *Store) chosen(ctx context.Context, p Project, condition string, limit int, args ...any) ([]Resource, error) {
	type found struct {
		typ event.ResourceType
		id  string
	}
	keys, err := list(ctx, s.read, func(r row) (f found, err error) { return f, r.Scan(&f.typ, &f.id) },
		`SELECT r.type, r.id FROM resources r WHERE r.project = ? AND `+condition+` ORDER BY r.type, r.id LIMIT ?`, append(append([]any{p.Num}, args...), limit)...)
	if err != nil {
		return nil, err
	}
	var all []Resource
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && n < maxIDs && keys[n].typ == keys[0].typ {
			n++
		}
		f := ResourceFilter{ProjectID: p.ID, Type: string(keys[0].typ)}
		for _, k := range keys[:n] {
			f.IDs = append(f.IDs, k.id)
		}
		keys = keys[n:]
		for res, err := range s.Timelines(ctx, f) {
			if err != nil {
				return nil, err
			}
			all = append(all, res)
		}
	}
	return all, nil
}

// maxIDs is how many resources are looked up by id at once.
const maxIDs = 500
