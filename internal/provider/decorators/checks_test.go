package decorators_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
)

// says answers what it is told to and counts the calls that reach it.
type says struct {
	id    provider.InstanceID
	in    provider.Instance
	list  []provider.Instance
	calls int
}

func (s *says) Create(context.Context, provider.CreateRequest) (provider.InstanceID, error) {
	s.calls++
	return s.id, nil
}
func (s *says) Get(context.Context, provider.InstanceID) (provider.Instance, error) {
	s.calls++
	return s.in, nil
}
func (s *says) Find(context.Context, string, provider.Marks) (provider.Instance, error) {
	s.calls++
	return s.in, nil
}
func (s *says) Delete(context.Context, provider.InstanceID) error { s.calls++; return nil }
func (s *says) List(context.Context, provider.Selector) ([]provider.Instance, error) {
	s.calls++
	return s.list, nil
}

func TestChecksRefuseRequests(t *testing.T) {
	t.Parallel()
	create := func(change func(*provider.CreateRequest)) func(context.Context, provider.Provider) error {
		req := request("u1")
		change(&req)
		return func(ctx context.Context, p provider.Provider) error { _, err := p.Create(ctx, req); return err }
	}
	find := func(name string, owner provider.Marks) func(context.Context, provider.Provider) error {
		return func(ctx context.Context, p provider.Provider) error { _, err := p.Find(ctx, name, owner); return err }
	}
	for what, tt := range map[string]struct {
		do     func(context.Context, provider.Provider) error
		reason string
		text   string // of the error
	}{
		"create: no name":             {create(func(r *provider.CreateRequest) { r.Name = "" }), provider.ReasonInvalidSpec, `name: "" is not a name`},
		"create: upper case":          {create(func(r *provider.CreateRequest) { r.Name = "Proxy" }), provider.ReasonInvalidSpec, `name: "Proxy" is not a name`},
		"create: no uid":              {create(func(r *provider.CreateRequest) { r.Marks.UID = "" }), provider.ReasonInvalidSpec, "marks.uid: must not be empty"},
		"create: no namespace":        {create(func(r *provider.CreateRequest) { r.Marks.Namespace = "" }), provider.ReasonInvalidSpec, "marks.namespace"},
		"create: no proxy":            {create(func(r *provider.CreateRequest) { r.Marks.Proxy = "" }), provider.ReasonInvalidSpec, "marks.proxy"},
		"create: no spec hash":        {create(func(r *provider.CreateRequest) { r.Marks.SpecHash = "" }), provider.ReasonInvalidSpec, "marks.specHash"},
		"create: no installation":     {create(func(r *provider.CreateRequest) { r.Marks.Installation = "" }), provider.ReasonInvalidSpec, `marks.installation: "": want "acme"`},
		"create: other installation":  {create(func(r *provider.CreateRequest) { r.Marks.Installation = "x" }), provider.ReasonInvalidSpec, `marks.installation: "x": want "acme"`},
		"create: port 0":              {create(func(r *provider.CreateRequest) { r.Port = 0 }), provider.ReasonInvalidSpec, "port: 0: want 1 to 65535"},
		"create: port 65536":          {create(func(r *provider.CreateRequest) { r.Port = 65536 }), provider.ReasonInvalidSpec, "port: 65536"},
		"create: auth without a user": {create(func(r *provider.CreateRequest) { r.Auth = &provider.BasicAuth{} }), provider.ReasonInvalidSpec, "auth.username"},
		"create: colon in the user":   {create(func(r *provider.CreateRequest) { r.Auth = &provider.BasicAuth{Username: "a:b"} }), provider.ReasonInvalidSpec, "auth.username"},
		"get: no id":                  {func(ctx context.Context, p provider.Provider) error { _, err := p.Get(ctx, ""); return err }, provider.ReasonMalformedID, "empty"},
		"delete: no id":               {func(ctx context.Context, p provider.Provider) error { return p.Delete(ctx, "") }, provider.ReasonMalformedID, "empty"},
		"find: no name":               {find("", provider.Marks{UID: "u", Installation: "i"}), provider.ReasonInvalidSpec, "name"},
		"find: no uid":                {find("x", provider.Marks{Installation: "i"}), provider.ReasonInvalidSpec, `uid ""`},
		"find: no installation":       {find("x", provider.Marks{UID: "u"}), provider.ReasonInvalidSpec, `installation ""`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := &says{id: "x"}
			err := tt.do(t.Context(), decorators.WithChecks(d, name, installation))
			if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != tt.reason || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v (reason %q), want Permanent, %q and %q", err, provider.ReasonOf(err), tt.reason, tt.text)
			}
			if d.calls != 0 {
				t.Error("the driver was called")
			}
		})
	}
}

func TestChecksRefuseAnswers(t *testing.T) {
	t.Parallel()
	ours := provider.Marks{UID: "u1", Installation: installation}
	good := provider.Instance{ID: "1", Name: "x", Marks: ours, State: provider.StateRunning, IP: netip.MustParseAddr("10.0.0.1")}
	other := func(change func(*provider.Instance)) provider.Instance { in := good; change(&in); return in }
	get := func(ctx context.Context, p provider.Provider) error { _, err := p.Get(ctx, "1"); return err }
	find := func(ctx context.Context, p provider.Provider) error { _, err := p.Find(ctx, "x", ours); return err }
	list := func(ctx context.Context, p provider.Provider) error {
		all, err := p.List(ctx, provider.Selector{Installation: installation})
		if err != nil && all != nil {
			t.Errorf("a list beside the error %v", err)
		}
		return err
	}
	for what, tt := range map[string]struct {
		driver says
		do     func(context.Context, provider.Provider) error
		wrong  bool
	}{
		"create": {says{id: "1"}, func(ctx context.Context, p provider.Provider) error {
			_, err := p.Create(ctx, request("u1"))
			return err
		}, false},
		"create without an id": {says{}, func(ctx context.Context, p provider.Provider) error {
			_, err := p.Create(ctx, request("u1"))
			return err
		}, true},
		"get":                        {says{in: good}, get, false},
		"get: nothing and no error":  {says{}, get, true},
		"get: another instance":      {says{in: other(func(i *provider.Instance) { i.ID = "2" })}, get, true},
		"find":                       {says{in: good}, find, false},
		"find: nothing and no error": {says{}, find, true},
		"find: another name":         {says{in: other(func(i *provider.Instance) { i.Name = "y" })}, find, true},
		"find: another owner":        {says{in: other(func(i *provider.Instance) { i.Marks.UID = "u2" })}, find, true},
		"find: another installation": {says{in: other(func(i *provider.Instance) { i.Marks.Installation = "x" })}, find, true},
		"list":                       {says{list: []provider.Instance{good, other(func(i *provider.Instance) { i.ID = "2" })}}, list, false},
		"list: nothing":              {says{}, list, false},
		"list: no uid":               {says{list: []provider.Instance{other(func(i *provider.Instance) { i.Marks.UID = "" })}}, list, false},
		"list: no id":                {says{list: []provider.Instance{good, other(func(i *provider.Instance) { i.ID = "" })}}, list, true},
		"list: twice":                {says{list: []provider.Instance{good, good}}, list, true},
		"list: not selected":         {says{list: []provider.Instance{other(func(i *provider.Instance) { i.Marks.Installation = "" })}}, list, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			err := tt.do(t.Context(), decorators.WithChecks(&tt.driver, name, installation))
			if !tt.wrong && err != nil {
				t.Errorf("a good answer was refused: %v", err)
			}
			if tt.wrong && (provider.ClassOf(err) != provider.Transient || provider.ReasonOf(err) != decorators.ReasonContract) {
				t.Errorf("got %v (reason %q), want Transient with reason %s", err, provider.ReasonOf(err), decorators.ReasonContract)
			}
		})
	}
}

func TestRunningWithoutAddressIsProvisioning(t *testing.T) {
	t.Parallel()
	in := provider.Instance{ID: "1", Name: "x", Marks: provider.Marks{UID: "u1", Installation: installation}, State: provider.StateRunning}
	p := decorators.WithChecks(&says{in: in, list: []provider.Instance{in}}, name, installation)
	got, err := p.Get(t.Context(), "1")
	if err != nil || got.State != provider.StateProvisioning {
		t.Errorf("get: state %s, %v", got.State, err)
	}
	if got, err = p.Find(t.Context(), "x", in.Marks); err != nil || got.State != provider.StateProvisioning {
		t.Errorf("find: state %s, %v", got.State, err)
	}
	if all, err := p.List(t.Context(), provider.Selector{}); err != nil || all[0].State != provider.StateProvisioning {
		t.Errorf("list: %+v, %v", all, err)
	}
}
