package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// listTries is how often a listing is begun anew because the entry that the next
// page would begin after has gone.
const listTries = 4

// List reads all pages of a collection, limit entries at a time, or as many as
// the service likes with limit 0.
func List[T any](ctx context.Context, c *gophercloud.ServiceClient, path, key string, query url.Values, limit int) (all []T, err error) {
	for range listTries {
		var again bool
		if all, again, err = readPages[T](ctx, c, path, key, query, limit); !again {
			return all, err
		}
	}
	return nil, err
}

func readPages[T any](ctx context.Context, c *gophercloud.ServiceClient, path, key string, query url.Values, limit int) (all []T, again bool, err error) {
	all = []T{}
	seen := map[string]bool{}
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
		var page map[string]json.RawMessage
		u := c.ServiceURL(strings.Split(path, "/")...)
		if len(q) > 0 {
			u += "?" + q.Encode()
		}
		if _, err := c.Get(ctx, u, &page, nil); err != nil {
			return nil, marker != "" && badMarker(err, marker), err
		}
		var raw []json.RawMessage
		if page[key] == nil || json.Unmarshal(page[key], &raw) != nil || raw == nil {
			return nil, false, ErrAnswer // it cannot be told whether there is nothing
		}
		fresh := 0
		for _, one := range raw {
			var it T
			var id struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(one, &id) != nil || id.ID == "" || json.Unmarshal(one, &it) != nil {
				return nil, false, ErrAnswer
			}
			marker = id.ID
			if !seen[id.ID] {
				seen[id.ID] = true
				all = append(all, it)
				fresh++
			}
		}
		if !hasNext(page[key+"_links"]) && (limit == 0 || len(raw) < limit) {
			return all, false, nil
		}
		if fresh == 0 {
			if len(raw) == 0 {
				return all, false, nil
			}
			return nil, false, ErrAnswer // pages that go round in circles
		}
	}
}

// hasNext reports whether a page's links name another one. The link itself is
// not followed: behind a gateway it often has the wrong host.
func hasNext(links json.RawMessage) bool {
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
