package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Page is one page of a collection.
type Page struct {
	// Entries are its entries as they came. IDs are theirs, "" where an entry has
	// none.
	Entries []json.RawMessage
	IDs     []string
	// More says that there is another page behind it.
	More bool
	// Date is when the service answered, by its own clock; zero when it does not say.
	Date time.Time
}

// ReadPage reads one page of a collection. Entries are under key; a limit in the
// query is how many the page may have. Without one, the service's links say whether
// there is more.
func ReadPage(ctx context.Context, c *gophercloud.ServiceClient, path, key string, query url.Values) (Page, error) {
	u := c.ServiceURL(strings.Split(path, "/")...)
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	var doc map[string]json.RawMessage
	resp, err := c.Get(ctx, u, &doc, nil)
	if err != nil {
		return Page{}, err
	}
	p := Page{Date: DateOf(resp)}
	if doc[key] == nil || json.Unmarshal(doc[key], &p.Entries) != nil || p.Entries == nil {
		return Page{}, ErrAnswer // it cannot be told whether there is nothing
	}
	for _, raw := range p.Entries {
		var e struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &e) // an entry without an id is the caller's to judge
		p.IDs = append(p.IDs, e.ID)
	}
	limit := query.Get("limit")
	p.More = HasNext(doc[key+"_links"]) || limit != "" && len(p.Entries) > 0 && limit == fmt.Sprint(len(p.Entries))
	return p, nil
}

// DateOf is the service's time of an answer, zero when it does not say.
func DateOf(r *http.Response) time.Time {
	if r == nil {
		return time.Time{}
	}
	t, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// ParseTime reads the forms of times that the services use; the zero time for
// any other. Those without a zone are UTC.
func ParseTime(text string) time.Time {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// ErrMarker is a listing whose next page cannot be found: the entry that it begins
// after has gone.
var ErrMarker = errors.New("the entry that the next page begins after is gone")

// listTries is how often a listing is begun anew because the entry that the next
// page would begin after has gone.
const listTries = 4

// List reads all pages of a collection, limit entries at a time, or as many as
// the service likes with limit 0.
func List[T any](ctx context.Context, c *gophercloud.ServiceClient, path, key string, query url.Values, limit int) (all []T, err error) {
	for range listTries {
		all = []T{}
		err = Walk(ctx, c, path, key, query, limit, func(p Page) error {
			for i, raw := range p.Entries {
				var it T
				if p.IDs[i] == "" || json.Unmarshal(raw, &it) != nil {
					return ErrAnswer
				}
				all = append(all, it)
			}
			return nil
		})
		if !errors.Is(err, ErrMarker) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Walk reads all pages of a collection and hands each on, with the entries that no
// page before had. It fails with ErrMarker when a page cannot be found, and has to
// be begun anew then.
func Walk(ctx context.Context, c *gophercloud.ServiceClient, path, key string, query url.Values, limit int, take func(Page) error) error {
	seen, stale := map[string]bool{}, 0
	for marker := ""; ; {
		q := url.Values{}
		for k, v := range query {
			q[k] = v
		}
		if limit > 0 {
			q.Set("limit", fmt.Sprint(limit))
		}
		if marker != "" {
			q.Set("marker", marker)
		}
		p, err := ReadPage(ctx, c, path, key, q)
		if err != nil {
			if marker != "" && BadMarker(err, marker) {
				return fmt.Errorf("%w: %w", ErrMarker, err)
			}
			return err
		}
		fresh := Page{More: p.More, Date: p.Date}
		had := len(p.Entries)
		for i, id := range p.IDs {
			if id != "" {
				marker = id
			}
			if id == "" || !seen[id] {
				seen[id] = id != ""
				fresh.Entries, fresh.IDs = append(fresh.Entries, p.Entries[i]), append(fresh.IDs, id)
			}
		}
		if err := take(fresh); err != nil {
			return err
		}
		// The network service begins anew when the marker is gone; pages that go round
		// in circles for longer than that are an error.
		if stale++; len(fresh.Entries) > 0 {
			stale = 0
		}
		switch {
		case !p.More || had == 0:
			return nil
		case stale > len(seen)/had+2:
			return ErrAnswer
		}
	}
}

// HasNext reports whether a page's links name another one. The link itself is
// not followed: behind a gateway it often has the wrong host.
func HasNext(links json.RawMessage) bool {
	var ls []struct {
		Rel string `json:"rel"`
	}
	_ = json.Unmarshal(links, &ls)
	for _, l := range ls {
		if l.Rel == "next" {
			return true
		}
	}
	return false
}
