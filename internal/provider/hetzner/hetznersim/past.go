package hetznersim

import (
	"slices"
	"time"
)

// Past are finished actions of servers that lived before the simulator began: it
// makes them up at each request, so that there may be millions. Each server lives
// for five actions, one after the other: create_server, stop_server,
// start_server, change_server_type, delete_server. Their numbers are 1 to Actions,
// those of the servers 1 and up. Every project has the same past.
type Past struct {
	Actions int
	// Began is when the first action did, and Every the time between two.
	Began time.Time
	Every time.Duration
}

// PastLife is the number of actions of a server in the past.
const PastLife = 5

var pastCommands = [PastLife]string{"create_server", "stop_server", "start_server", "change_server_type", "delete_server"}

// at is the action of a number, from 1 on.
func (p Past) at(id int64) *action {
	n := id - 1
	began := p.Began.Add(time.Duration(n) * p.Every)
	ends := began.Add(p.Every / 2)
	return &action{ID: id, Command: pastCommands[n%PastLife], Status: success, Started: began, EndsAt: ends, Finished: ends,
		On: []resource{{"server", n/PastLife + 1}}}
}

func (p Past) has(id int64) bool { return id >= 1 && id <= int64(p.Actions) }

// action finds an action of the project or of the past.
func (c *call) action(id int64) (*action, bool) {
	if p := c.s.opts.Past; p.has(id) {
		return p.at(id), true
	}
	a, ok := c.p.Actions[id]
	return a, ok && !a.Hidden
}

// listPast lists the actions of all servers, those of the past before those of
// the project, by number alone.
func (c *call) listPast(kept []*action) (int, any, error) {
	q, rules := c.r.URL.Query(), actionListRules()
	if err := rules.check(q); err != nil {
		return 0, nil, err
	}
	past := c.s.opts.Past.Actions
	if st := q["status"]; len(st) > 0 {
		if !slices.Contains(st, success) {
			past = 0
		}
		kept = slices.DeleteFunc(kept, func(a *action) bool { return !slices.Contains(st, a.Status) })
	}
	down := false
	switch s := q["sort"]; {
	case len(s) == 0, slices.Equal(s, []string{"id"}), slices.Equal(s, []string{"id:asc"}):
	case slices.Equal(s, []string{"id:desc"}):
		down = true
	default:
		return 0, nil, invalid("sort", "the simulator sorts a past by id only")
	}
	total := past + len(kept)
	from, to, meta, err := c.cut(q, total)
	if err != nil {
		return 0, nil, err
	}
	items := make([]obj, 0, to-from)
	for i := from; i < to; i++ {
		n := i
		if down {
			n = total - 1 - i
		}
		if n < past {
			items = append(items, c.s.opts.Past.at(int64(n+1)).view(c.now))
		} else {
			items = append(items, kept[n-past].view(c.now))
		}
	}
	return 200, obj{rules.key: items, "meta": obj{"pagination": meta}}, nil
}
