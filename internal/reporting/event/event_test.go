package event_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

var at = time.Date(2026, 11, 2, 10, 0, 0, 500, time.UTC)

func upgrade() event.Event {
	return event.New(event.ServerUpgrade, at, event.Data{
		Platform: event.Hetzner, Account: "acme",
		Resource: event.Resource{Type: event.Server, ID: "42", Name: "web"}, Change: event.Change("action", "1001"),
		Size:         event.Size{event.VCPUs: event.Int(4), event.RAMGB: event.Float(float32(7.6)), event.ServerType: event.Text("cx32")},
		PreviousSize: event.Size{event.VCPUs: event.Int(2)}, UnknownSize: []string{event.DiskGB}, Sequence: 1001,
	})
}

func TestWireFormIsCloudEventsAndReadsBack(t *testing.T) {
	t.Parallel()
	const want = `{
  "specversion": "1.0",
  "id": "hetzner/acme/server/42/action:1001",
  "source": "tollgate/hetzner/acme",
  "subject": "server/42",
  "type": "server.upgrade.end",
  "time": "2026-11-02T10:00:00.0000005Z",
  "datacontenttype": "application/json",
  "data": {
    "platform": "hetzner",
    "account": "acme",
    "resource": {
      "type": "server",
      "id": "42",
      "name": "web"
    },
    "change": "action:1001",
    "size": {
      "ram_gb": 7.6,
      "server_type": "cx32",
      "vcpus": 4
    },
    "previous_size": {
      "vcpus": 2
    },
    "unknown_size": [
      "disk_gb"
    ],
    "sequence": 1001
  }
}`
	e := upgrade()
	if err := e.Validate(); err != nil {
		t.Errorf("is not valid: %v", err)
	}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(b), want); diff != "" {
		t.Errorf("got, want:\n%s", diff)
	}
	got, err := event.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, e); diff != "" {
		t.Errorf("decoded, encoded:\n%s", diff)
	}
}

func TestDecodeLeavesOutWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(upgrade())
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), `{"specversion"`, `{"traceparent":"00-1","specversion"`, 1)
	s = strings.Replace(s, `"2026-11-02T10:00:00.0000005Z"`, `"2026-11-02T12:00:00.0000005+02:00"`, 1)
	got, err := event.Decode([]byte(s))
	if diff := cmp.Diff(got, upgrade()); err != nil || diff != "" {
		t.Errorf("error %v; got, want:\n%s", err, diff)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*event.Event)
		want   string
	}{
		"version":          {func(e *event.Event) { e.SpecVersion = "0.3" }, `specversion: "0.3" is not supported: want "1.0"`},
		"content type":     {func(e *event.Event) { e.DataContentType = "text/xml" }, `datacontenttype: "text/xml"`},
		"random id":        {func(e *event.Event) { e.ID = "5e0d" }, `id: "5e0d" does not follow from data: want "hetzner/acme/server/42/action:1001"`},
		"foreign source":   {func(e *event.Event) { e.Source = "x" }, `source: "x" does not follow`},
		"foreign subject":  {func(e *event.Event) { e.Subject = "server/43" }, `subject: "server/43" does not follow`},
		"no type":          {func(e *event.Event) { e.Type = "" }, `type: "" is not a type`},
		"other type":       {func(e *event.Event) { e.Type = event.VolumeResize }, `type: "volume.resize.end" is not about a server`},
		"no time":          {func(e *event.Event) { e.Time = time.Time{} }, `time: is missing`},
		"old time":         {func(e *event.Event) { e.Time = time.Unix(0, 0) }, `time: the year 1970 is out of range`},
		"no account":       {func(e *event.Event) { e.Data.Account = "" }, `data.account: is empty`},
		"no resource":      {func(e *event.Event) { e.Data.Resource.ID = "" }, `data.resource.id: is empty`},
		"no change":        {func(e *event.Event) { e.Data.Change = "" }, `data.change: is empty`},
		"long account":     {func(e *event.Event) { e.Data.Account = strings.Repeat("x", 513) }, `data.account: has 513 bytes: at most 512 are allowed`},
		"control":          {func(e *event.Event) { e.Data.Resource.ID = "4\x002" }, `data.resource.id: "4\x002" has a control character`},
		"platform":         {func(e *event.Event) { e.Data.Platform = "Hetzner Cloud" }, `data.platform: "Hetzner Cloud"`},
		"resource type":    {func(e *event.Event) { e.Data.Resource.Type = "Server" }, `data.resource.type: "Server"`},
		"state":            {func(e *event.Event) { e.Data.State = "on" }, `data.state: "on" is not a state: want one of [active off hibernated]`},
		"sequence":         {func(e *event.Event) { e.Data.Sequence = -1 }, `data.sequence: -1 is negative`},
		"derived":          {func(e *event.Event) { e.Data.Derived = "guess" }, `data.derived: "guess" is unknown`},
		"not before":       {func(e *event.Event) { later := e.Time.Add(1); e.Data.NotBefore = &later }, `data.not_before: `},
		"foreign field":    {func(e *event.Event) { e.Data.Size["size_gb"] = event.Int(1) }, `data.size: "size_gb" is no size field of a server at hetzner: want one of [vcpus ram_gb disk_gb server_type]`},
		"field name":       {func(e *event.Event) { e.Data.Counters = event.Size{"Pulls": event.Int(1)} }, `data.counters: the name "Pulls" is not valid`},
		"word for number":  {func(e *event.Event) { e.Data.Size[event.VCPUs] = event.Text("4") }, `data.size.vcpus: "4" is a word: want a number`},
		"number for word":  {func(e *event.Event) { e.Data.Size[event.ServerType] = event.Int(4) }, `data.size.server_type: 4 is a number: want a word`},
		"word as counter":  {func(e *event.Event) { e.Data.Counters = event.Size{"pulls": event.Text("1")} }, `data.counters.pulls: "1" is a word: want a number`},
		"negative":         {func(e *event.Event) { e.Data.Size[event.VCPUs] = event.Int(-1) }, `data.size.vcpus: -1 is negative`},
		"empty word":       {func(e *event.Event) { e.Data.Size[event.ServerType] = event.Text("") }, `data.size.server_type: is empty`},
		"known unknown":    {func(e *event.Event) { e.Data.UnknownSize = []string{event.VCPUs} }, `data.unknown_size: "vcpus" stands in data.size too`},
		"unknown twice":    {func(e *event.Event) { e.Data.UnknownSize = []string{event.DiskGB, event.DiskGB} }, `data.unknown_size: "disk_gb" is listed twice`},
		"unknown field":    {func(e *event.Event) { e.Data.UnknownSize = []string{event.SizeGB} }, `data.unknown_size: "size_gb" is no size field`},
		"large":            {func(e *event.Event) { e.Data.Region = strings.Repeat("x", event.MaxBytes) }, `at most 65536 are allowed`},
		"unset size value": {func(e *event.Event) { e.Data.Size[event.ServerType] = event.Value{} }, `data.size.server_type: is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := upgrade()
			c.change(&e)
			if err := e.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestFieldsWithoutATableAreFree(t *testing.T) {
	t.Parallel()
	e := event.New(event.TypeOf("tape", "resize"), at, event.Data{Platform: "attic", Account: "a",
		Resource: event.Resource{Type: "tape", ID: "u"}, Change: "n:4",
		Size: event.Size{"metres": event.Int(3), "colour": event.Text("red")}})
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

// A shoot has fields for each of its pools.
func TestPoolFields(t *testing.T) {
	t.Parallel()
	scale := func(size event.Size) event.Event {
		return event.New(event.ShootWorkerScale, at, event.Data{Platform: event.Gardener, Account: "live/acme",
			Resource: event.Resource{Type: event.Shoot, ID: "u"}, Change: "scale:4", Size: size})
	}
	good := event.Size{event.WorkerCount: event.Int(4),
		event.PoolWorkerCount("a"): event.Int(3), event.PoolMachineType("a"): event.Text("m1.large"),
		event.PoolWorkerCount("gpu-2"): event.Int(1), event.PoolMachineType("gpu-2"): event.Text("4"),
		event.PoolWorkerCount("machine-type"): event.Int(0), event.PoolMachineType("worker-count"): event.Text("x")}
	if err := scale(good).Validate(); err != nil {
		t.Error(err)
	}
	if len(good) != 7 {
		t.Errorf("two pools share a field: %v", good)
	}
	for field, want := range map[string]string{
		"workers": "no size field", "pool_worker_count": "no size field", "pool_machine_type": "no size field", "pool_a_count": "no size field",
		event.PoolMachineType("a"): "is a number: want a word",
	} {
		if err := scale(event.Size{field: event.Int(1)}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", field, err, want)
		}
	}
	if err := scale(event.Size{event.PoolWorkerCount("a"): event.Text("many")}).Validate(); err == nil {
		t.Error("a count that is a word")
	}
}

func TestTypesSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ    event.Type
		effect event.Effect
		state  event.State
	}{
		{event.ServerCreate, event.Opens, event.Active},
		{event.ServerDelete, event.Closes, ""},
		{event.ServerUpgrade, event.Changes, ""},
		{event.ServerPowerOff, event.Changes, event.Off},
		{event.ServerPowerOn, event.Changes, event.Active},
		{event.LoadBalancerAddTarget, event.Changes, ""},
		{event.ShootHibernateStart, event.Changes, event.Hibernated},
		{event.ShootHibernateEnd, event.Changes, event.Active},
		{event.ShootWorkerScale, event.Changes, ""},
		{event.RepositoryPush, event.Touches, ""},
		{event.RepositoryPull, event.None, ""},
		{event.RepositoryDelete, event.Closes, ""},
		{event.ProjectCreate, event.Opens, event.Active},
		{"server.create.start", event.None, ""},
		{"server.delete.start", event.None, ""},
		{event.ServerRestore, event.Touches, event.Active},
		{"server.restore.start", event.None, ""},
		{event.TypeOf(event.NIC, "create"), event.Opens, event.Active},
		{"server", event.Changes, ""},
	} {
		if got := c.typ.Effect(); got != c.effect {
			t.Errorf("%s: effect is %d, want %d", c.typ, got, c.effect)
		}
		if got := c.typ.State(); got != c.state {
			t.Errorf("%s: state is %q, want %q", c.typ, got, c.state)
		}
	}
}

func TestValuesAreExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]event.Value{
		"4": event.Int(4), "4.0": event.Int(4), "4e0": event.Int(4), "-0": event.Int(0), "1E3": event.Int(1000),
		"0.1": event.Float(0.1), "7.6": event.Float(float32(7.6)), `"cx22"`: event.Text("cx22"), "true": event.Bool(true),
		"12345678901234567890": event.Value{},
	} {
		var got event.Value
		if err := json.Unmarshal([]byte(in), &got); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if want == (event.Value{}) {
			if got.String() != in || !got.IsNumber() {
				t.Errorf("%s reads as %s", in, got)
			}
		} else if got != want {
			t.Errorf("%s reads as %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{"null", "{}", "[]", "1e999999999", "1e41", ""} {
		var v event.Value
		if err := json.Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("%s reads as %s", in, v)
		}
	}
	if got := event.Float(0.1).Rat().RatString(); got != "1/10" {
		t.Errorf("0.1 is %s", got)
	}
	if event.Text("x").Rat() != nil {
		t.Error("a word has a number")
	}
	if _, err := json.Marshal(event.Size{"x": event.Float(1 / zero)}); err == nil {
		t.Error("an infinite number has a JSON form")
	}
}

var zero float64

// What is valid reads back as it was written, and stays valid.
func FuzzDecode(f *testing.F) {
	b, err := json.Marshal(upgrade())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(strings.Replace(string(b), "7.6", "76e-1", 1)))
	f.Add([]byte(`{"id":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := event.Decode(b)
		if err != nil || e.Validate() != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := event.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := back.Validate(); err != nil {
			t.Error(err)
		}
		third, err := json.Marshal(back)
		if err != nil || string(third) != string(again) {
			t.Errorf("%v\n%s\n%s", err, again, third)
		}
	})
}
