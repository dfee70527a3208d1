package usage

import (
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

var day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// clock is a time of that day, such as "09:00:03" or "24:00".
func clock(s string) time.Time {
	var h, m, sec int
	_, _ = fmt.Sscanf(s, "%d:%d:%d", &h, &m, &sec) // seconds may be left out
	return day.Add(time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(sec)*time.Second)
}

type option func(*event.Data)

func sized(s event.Size) option    { return func(d *event.Data) { d.Size = s } }
func was(s event.Size) option      { return func(d *event.Data) { d.PreviousSize = s } }
func unknown(f ...string) option   { return func(d *event.Data) { d.UnknownSize = f } }
func sequence(n int64) option      { return func(d *event.Data) { d.Sequence = n } }
func counting(s event.Size) option { return func(d *event.Data) { d.Counters = s } }
func inState(s event.State) option { return func(d *event.Data) { d.State = s } }
func derived(notBefore time.Time) option {
	return func(d *event.Data) { d.Derived, d.NotBefore = event.FromInventory, &notBefore }
}

// on makes an event of a resource.
func on(typ event.Type, at time.Time, id, change string, opts ...option) event.Event {
	d := event.Data{Platform: event.Hetzner, Account: "acme", Resource: event.Resource{Type: typ.Resource(), ID: id}, Change: change}
	if typ.Resource() == event.Repository {
		d.Platform, d.Account = event.Harbor, "team-alpha"
	}
	for _, o := range opts {
		o(&d)
	}
	return event.New(typ, at, d)
}

func server(vcpus, ram, disk int, typ string) event.Size {
	return event.Size{event.VCPUs: event.Int(vcpus), event.RAMGB: event.Int(ram), event.DiskGB: event.Int(disk), event.ServerType: event.Text(typ)}
}

func gb(n int) event.Size { return event.Size{event.SizeGB: event.Int(n)} }
