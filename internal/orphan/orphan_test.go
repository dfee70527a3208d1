package orphan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	ours   = "acme"
	minAge = 10 * time.Minute
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func item(edit ...func(*orphan.Item)) orphan.Item {
	i := orphan.Instance(provider.Instance{
		ID: "id-1", Name: "proxy-1", CreatedAt: now.Add(-time.Hour),
		Marks: provider.Marks{UID: "uid-1", Installation: ours, Namespace: "default", Proxy: "a"},
	})
	for _, e := range edit {
		e(&i)
	}
	return i
}

func TestPlan(t *testing.T) {
	t.Parallel()
	created := func(at time.Time) func(*orphan.Item) { return func(i *orphan.Item) { i.CreatedAt = at } }
	companion := func(attached provider.InstanceID) orphan.Item {
		return orphan.Companion(provider.Companion{Kind: "volume", ID: "vol-1", Marks: item().Marks, AttachedTo: attached})
	}
	for name, tc := range map[string]struct {
		item  orphan.Item
		owner orphan.Reason // "" means that it was not looked up
		seen  bool
		want  orphan.Reason
		sure  bool
	}{
		"owner runs":              {item(), orphan.Owned, false, orphan.Owned, false},
		"owner runs again":        {item(), orphan.Owned, true, orphan.Owned, false},
		"owner unknown":           {item(), orphan.OwnerNotFound, false, orphan.OwnerNotFound, false},
		"owner unknown, twice":    {item(), orphan.OwnerNotFound, true, orphan.OwnerNotFound, true},
		"owner closed, twice":     {item(), orphan.OwnerClosed, true, orphan.OwnerClosed, true},
		"owner replaced, twice":   {item(), orphan.OwnerReplaced, true, orphan.OwnerReplaced, true},
		"owner unreadable":        {item(), orphan.OwnerUnreadable, true, orphan.OwnerUnreadable, false},
		"owner never looked up":   {item(), "", true, orphan.OwnerUnreadable, false},
		"owner's answer is odd":   {item(), orphan.Young, true, orphan.OwnerUnreadable, false},
		"other installation":      {item(func(i *orphan.Item) { i.Marks.Installation = "other" }), orphan.OwnerNotFound, true, orphan.Foreign, false},
		"no installation":         {item(func(i *orphan.Item) { i.Marks.Installation = "" }), orphan.OwnerNotFound, true, orphan.Foreign, false},
		"no marks at all":         {item(func(i *orphan.Item) { i.Marks = provider.Marks{} }), orphan.OwnerNotFound, true, orphan.Foreign, false},
		"no uid":                  {item(func(i *orphan.Item) { i.Marks.UID = "" }), orphan.OwnerNotFound, true, orphan.Unattributed, false},
		"no namespace":            {item(func(i *orphan.Item) { i.Marks.Namespace = "" }), orphan.OwnerNotFound, true, orphan.Unattributed, false},
		"no proxy":                {item(func(i *orphan.Item) { i.Marks.Proxy = "" }), orphan.OwnerNotFound, true, orphan.Unattributed, false},
		"no id":                   {item(func(i *orphan.Item) { i.ID = "" }), orphan.OwnerNotFound, true, orphan.Unattributed, false},
		"young":                   {item(created(now.Add(-time.Minute))), orphan.OwnerNotFound, true, orphan.Young, false},
		"exactly the age":         {item(created(now.Add(-minAge))), orphan.OwnerNotFound, true, orphan.Young, false},
		"just over the age":       {item(created(now.Add(-minAge - 1))), orphan.OwnerNotFound, true, orphan.OwnerNotFound, true},
		"from the future":         {item(created(now.Add(time.Hour))), orphan.OwnerNotFound, true, orphan.Young, false},
		"age unknown, owner gone": {item(created(time.Time{})), orphan.OwnerNotFound, true, orphan.OwnerNotFound, true},
		"age unknown, owner runs": {item(created(time.Time{})), orphan.Owned, true, orphan.Owned, false},
		"companion left behind":   {companion(""), orphan.OwnerClosed, true, orphan.OwnerClosed, true},
		"companion in use":        {companion("id-9"), orphan.OwnerClosed, true, orphan.InUse, false},
		"companion of a running":  {companion(""), orphan.Owned, true, orphan.Owned, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := orphan.Input{Installation: ours, Now: now, MinAge: minAge, Items: []orphan.Item{tc.item}}
			if tc.owner != "" {
				in.Owners = map[orphan.Owner]orphan.Reason{tc.item.Owner(): tc.owner}
			}
			if tc.seen {
				in.Seen = map[orphan.Ref]bool{tc.item.Ref(): true}
			}
			want := []orphan.Verdict{{Item: tc.item, Reason: tc.want, Confirmed: tc.sure}}
			if diff := cmp.Diff(want, orphan.Plan(in)); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanWithoutAnInstallationTouchesNothing(t *testing.T) {
	t.Parallel()
	i := item(func(i *orphan.Item) { i.Marks.Installation = "" })
	got := orphan.Plan(orphan.Input{Now: now, Items: []orphan.Item{i}, Seen: map[orphan.Ref]bool{i.Ref(): true},
		Owners: map[orphan.Owner]orphan.Reason{i.Owner(): orphan.OwnerNotFound}})
	if got[0].Reason != orphan.Foreign || got[0].Confirmed {
		t.Errorf("Plan = %+v, want it foreign", got[0])
	}
}

func TestPlanConfirmsOnlyTheSameThing(t *testing.T) {
	t.Parallel()
	first := item()
	for name, later := range map[string]orphan.Item{
		"other uid":  item(func(i *orphan.Item) { i.Marks.UID = "uid-2" }),
		"other id":   item(func(i *orphan.Item) { i.ID = "id-2" }),
		"other kind": item(func(i *orphan.Item) { i.Kind = "volume" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := orphan.Plan(orphan.Input{Installation: ours, Now: now, MinAge: minAge, Items: []orphan.Item{later},
				Owners: map[orphan.Owner]orphan.Reason{later.Owner(): orphan.OwnerNotFound}, Seen: map[orphan.Ref]bool{first.Ref(): true}})
			if got[0].Confirmed {
				t.Errorf("Plan = %+v, want it not confirmed", got[0])
			}
		})
	}
}

func TestLookups(t *testing.T) {
	t.Parallel()
	named := func(ns, proxy, uid string) func(*orphan.Item) {
		return func(i *orphan.Item) { i.Marks.Namespace, i.Marks.Proxy, i.Marks.UID = ns, proxy, uid }
	}
	in := orphan.Input{Installation: ours, Now: now, MinAge: minAge, Items: []orphan.Item{
		item(named("z", "a", "1")), item(named("b", "b", "2")), item(named("b", "a", "2")), item(named("z", "a", "1")),
		item(named("b", "b", "1")),
		item(named("y", "young", "3"), func(i *orphan.Item) { i.CreatedAt = now }),
		item(named("f", "foreign", "4"), func(i *orphan.Item) { i.Marks.Installation = "other" }),
		item(named("u", "", "5")),
	}}
	want := []orphan.Owner{{"b", "a", "2"}, {"b", "b", "1"}, {"b", "b", "2"}, {"z", "a", "1"}}
	if diff := cmp.Diff(want, orphan.Lookups(in)); diff != "" {
		t.Errorf("Lookups (-want +got):\n%s", diff)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sighting orphan.Sighting
		policy   orphan.Policy
		want     orphan.Step
	}{
		{orphan.Sighting{}, orphan.Policy{Cap: 10}, orphan.StepDone},
		{orphan.Sighting{Second: true}, orphan.Policy{Cap: 10}, orphan.StepDone},
		{orphan.Sighting{Orphans: 1}, orphan.Policy{Cap: 10}, orphan.StepConfirm},
		{orphan.Sighting{Orphans: 99}, orphan.Policy{Cap: 10}, orphan.StepConfirm},
		{orphan.Sighting{Orphans: 1}, orphan.Policy{Cap: 10, DryRun: true}, orphan.StepConfirm},
		{orphan.Sighting{Orphans: 1, Second: true}, orphan.Policy{Cap: 10}, orphan.StepDelete},
		{orphan.Sighting{Orphans: 10, Second: true}, orphan.Policy{Cap: 10}, orphan.StepDelete},
		{orphan.Sighting{Orphans: 11, Second: true}, orphan.Policy{Cap: 10}, orphan.StepOverCap},
		{orphan.Sighting{Orphans: 11, Second: true}, orphan.Policy{Cap: 10, DryRun: true}, orphan.StepOverCap},
		{orphan.Sighting{Orphans: 1, Second: true}, orphan.Policy{Cap: 10, DryRun: true}, orphan.StepReport},
		{orphan.Sighting{Orphans: 1, Second: true}, orphan.Policy{}, orphan.StepOverCap},
		{orphan.Sighting{Unreadable: true}, orphan.Policy{Cap: 10}, orphan.StepUnreadable},
		{orphan.Sighting{Orphans: 1, Unreadable: true}, orphan.Policy{Cap: 10}, orphan.StepUnreadable},
		{orphan.Sighting{Orphans: 1, Second: true, Unreadable: true}, orphan.Policy{Cap: 10}, orphan.StepUnreadable},
	} {
		t.Run(fmt.Sprintf("%+v %+v", tc.sighting, tc.policy), func(t *testing.T) {
			t.Parallel()
			if got := orphan.Decide(tc.sighting, tc.policy); got != tc.want {
				t.Errorf("Decide = %s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzPlan builds listings from bytes and checks that whatever is confirmed for
// deletion meets every condition, and that nothing else changes a verdict.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0x13, 0x07, 0x55, 0xaa, 0x00, 0x91, 0x20})
	for i := range 256 {
		f.Add([]byte{byte(i), byte(i * 7), byte(i * 31), byte(i * 101), byte(255 - i)})
	}
	owners := []orphan.Reason{"", orphan.Owned, orphan.OwnerUnreadable, orphan.OwnerNotFound, orphan.OwnerClosed, orphan.OwnerReplaced, orphan.Young, "x"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := orphan.Input{Installation: ours, Now: now, MinAge: minAge, Owners: map[orphan.Owner]orphan.Reason{}, Seen: map[orphan.Ref]bool{}}
		for n, b := range raw {
			i := item(func(i *orphan.Item) {
				i.ID, i.Marks.UID = fmt.Sprint("id-", n), fmt.Sprint("uid-", n)
				i.CreatedAt = []time.Time{now.Add(-time.Hour), now.Add(-time.Minute), {}, now.Add(time.Minute)}[b&3]
				if b&4 != 0 {
					i.Marks.Installation = "other"
				}
				if b&8 != 0 {
					i.Marks.UID = ""
				}
				if b&16 != 0 {
					i.Kind, i.AttachedTo = "port", "id-x"
				}
			})
			in.Items = append(in.Items, i)
			if o := owners[int(b>>5)]; o != "" {
				in.Owners[i.Owner()] = o
			}
			if n%2 == 0 {
				in.Seen[i.Ref()] = true
			}
		}
		plan := orphan.Plan(in)
		if len(plan) != len(in.Items) {
			t.Fatalf("%d verdicts on %d items", len(plan), len(in.Items))
		}
		needed := map[orphan.Owner]bool{}
		for _, o := range orphan.Lookups(in) {
			needed[o] = true
		}
		for n, v := range plan {
			i := in.Items[n]
			if diff := cmp.Diff(i, v.Item); diff != "" {
				t.Fatalf("verdict %d is on another item:\n%s", n, diff)
			}
			owner := in.Owners[i.Owner()]
			may := i.Marks.Installation == ours && i.Marks.UID != "" && owner.Gone() && i.AttachedTo == "" &&
				orphan.OldEnough(i.CreatedAt, now, minAge)
			if v.Reason.Gone() != may {
				t.Errorf("item %+v of owner %q: verdict %s", i, owner, v.Reason)
			}
			if v.Confirmed != (may && in.Seen[i.Ref()]) {
				t.Errorf("item %+v of owner %q, seen %v: confirmed %v", i, owner, in.Seen[i.Ref()], v.Confirmed)
			}
			if (v.Reason.Gone() || v.Reason == orphan.Owned || v.Reason == orphan.OwnerUnreadable || v.Reason == orphan.InUse) != needed[i.Owner()] {
				t.Errorf("item %+v: verdict %s, and its owner is looked up: %v", i, v.Reason, needed[i.Owner()])
			}
		}
	})
}

func TestKindsOfItems(t *testing.T) {
	t.Parallel()
	if k := item().Kind; k != api.KindInstance {
		t.Errorf("the kind of an instance is %q", k)
	}
	c := orphan.Companion(provider.Companion{Kind: "floating-ip", ID: "f", AttachedTo: "id-1"})
	if c.Kind != "floating-ip" || c.AttachedTo != "id-1" {
		t.Errorf("Companion = %+v", c)
	}
}
