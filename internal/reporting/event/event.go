// Package event is the contract of a usage event: what happened to which resource
// of which account, in a CloudEvents 1.0 envelope. Sources make events, sinks
// deliver them, the Reporting API stores them and computes usage from them.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Values of the envelope that are the same in every event.
const (
	SpecVersion     = "1.0"
	DataContentType = "application/json"
	// MaxBytes is the most that an event may have as JSON.
	MaxBytes = 64 << 10
	// MaxName is the most bytes that an account, the id of a resource and a
	// change may have.
	MaxName = 512
)

// Event is one change of one resource, or one count. Its JSON form is a
// CloudEvents 1.0 event in the structured JSON format. Make one with New.
type Event struct {
	SpecVersion string `json:"specversion"`
	// ID is ID(platform, account, resource, change): whoever sees the change,
	// however often and on whatever path, gives it this id.
	ID string `json:"id"`
	// Source is Source(platform, account), Subject is the resource.
	Source  string `json:"source"`
	Subject string `json:"subject"`
	Type    Type   `json:"type"`
	// Time is when the change had finished, UTC.
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            Data      `json:"data"`
}

// Resource names a thing at a platform. ID is unique for its Type in an account.
type Resource struct {
	Type ResourceType `json:"type"`
	ID   string       `json:"id"`
	// Name is for people. It may change and identifies nothing.
	Name string `json:"name,omitempty"`
}

// Data is what happened.
type Data struct {
	Platform Platform `json:"platform"`
	// Account is the external id of the account, project or tenant at the
	// platform: with Platform it names the project of the Reporting API.
	Account  string   `json:"account"`
	Resource Resource `json:"resource"`
	// Change is the part of the id that tells the changes of a resource apart,
	// such as ChangeCreate or Change("action", "1001").
	Change string `json:"change"`
	// Size holds the size fields from Time on. Fields that are left out stay as
	// they were. In a delete it is the size that the resource had at its end.
	Size Size `json:"size,omitempty"`
	// PreviousSize is what the fields were until Time, where a change says so.
	PreviousSize Size `json:"previous_size,omitempty"`
	// UnknownSize names the size fields that nobody can know from Time on until
	// another event tells them.
	UnknownSize []string `json:"unknown_size,omitempty"`
	// State is the state from Time on. Empty means what Type says; see
	// Type.State.
	State State `json:"state,omitempty"`
	// Counters are added up per period, such as pulls or bytes sent.
	Counters Size `json:"counters,omitempty"`
	// Sequence orders events of one resource with equal times, such as the
	// provider's number of the action. Zero is unknown.
	Sequence int64 `json:"sequence,omitempty"`
	// Derived says from what an event was concluded that the provider's feed did
	// not show. Empty means that the feed showed it.
	Derived Derivation `json:"derived,omitempty"`
	// NotBefore is set in a derived event whose exact time nobody can know: the
	// change lies between NotBefore and Time.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Region is where the resource is, in the platform's own word.
	Region string `json:"region,omitempty"`
}

// Derivation is from what an event was concluded.
type Derivation string

// FromInventory marks an event that a comparison of listings produced.
const FromInventory Derivation = "inventory"

// New puts data into an envelope. The id comes from the data.
func New(t Type, at time.Time, d Data) Event {
	return Event{
		SpecVersion: SpecVersion, DataContentType: DataContentType,
		ID: ID(d.Platform, d.Account, d.Resource, d.Change), Source: Source(d.Platform, d.Account),
		Subject: Subject(d.Resource), Type: t, Time: at.UTC(), Data: d,
	}
}

// Decode reads one event in the structured JSON format. Attributes and fields
// that it does not know are left out, as CloudEvents asks. The event is not
// validated.
func Decode(b []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(b, &e); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	e.Time = e.Time.UTC()
	return e, nil
}

var (
	typePattern = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	wordPattern = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// Validate says everything that is wrong with an event; nil means that the
// Reporting API takes it. It is pure.
func (e Event) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	d := e.Data
	if e.SpecVersion != SpecVersion {
		bad("specversion: %q is not supported: want %q", e.SpecVersion, SpecVersion)
	}
	if e.DataContentType != "" && e.DataContentType != DataContentType {
		bad("datacontenttype: %q is not supported: want %q", e.DataContentType, DataContentType)
	}
	if !wordPattern.MatchString(string(d.Platform)) {
		bad("data.platform: %q is not a name such as hetzner: want %s", d.Platform, wordPattern)
	}
	if !wordPattern.MatchString(string(d.Resource.Type)) {
		bad("data.resource.type: %q is not a name such as floating_ip: want %s", d.Resource.Type, wordPattern)
	}
	for _, f := range []struct{ name, value string }{
		{"data.account", d.Account}, {"data.resource.id", d.Resource.ID}, {"data.change", d.Change},
	} {
		switch {
		case f.value == "":
			bad("%s: is empty", f.name)
		case len(f.value) > MaxName:
			bad("%s: has %d bytes: at most %d are allowed", f.name, len(f.value), MaxName)
		case strings.ContainsFunc(f.value, unicode.IsControl):
			bad("%s: %q has a control character", f.name, f.value)
		}
	}
	if want := ID(d.Platform, d.Account, d.Resource, d.Change); e.ID != want {
		bad("id: %q does not follow from data: want %q", e.ID, want)
	}
	if want := Source(d.Platform, d.Account); e.Source != want {
		bad("source: %q does not follow from data: want %q", e.Source, want)
	}
	if want := Subject(d.Resource); e.Subject != want {
		bad("subject: %q does not follow from data: want %q", e.Subject, want)
	}
	if !typePattern.MatchString(string(e.Type)) {
		bad("type: %q is not a type such as server.create.end: want %s", e.Type, typePattern)
	} else if e.Type.Resource() != d.Resource.Type {
		bad("type: %q is not about a %s, which data.resource.type says", e.Type, d.Resource.Type)
	}
	if e.Time.IsZero() {
		bad("time: is missing")
	} else if y := e.Time.Year(); y < 2000 || y > 2200 {
		bad("time: the year %d is out of range: want 2000 to 2200", y)
	}
	if d.NotBefore != nil && d.NotBefore.After(e.Time) {
		bad("data.not_before: %s is after time %s", d.NotBefore.UTC().Format(time.RFC3339Nano), e.Time.Format(time.RFC3339Nano))
	}
	if d.State != "" && !slices.Contains(States(), d.State) {
		bad("data.state: %q is not a state: want one of %v", d.State, States())
	}
	if d.Sequence < 0 {
		bad("data.sequence: %d is negative", d.Sequence)
	}
	if d.Derived != "" && d.Derived != FromInventory {
		bad("data.derived: %q is unknown: want %q or nothing", d.Derived, FromInventory)
	}
	errs = append(errs, d.validateSizes()...)
	if b, err := json.Marshal(e); err != nil {
		errs = append(errs, err)
	} else if len(b) > MaxBytes {
		bad("event: has %d bytes: at most %d are allowed", len(b), MaxBytes)
	}
	return errors.Join(errs...)
}

func (d Data) validateSizes() []error {
	var errs []error
	fields, closed := Fields(d.Platform, d.Resource.Type)
	check := func(where, name string) {
		switch {
		case !wordPattern.MatchString(name):
			errs = append(errs, fmt.Errorf("data.%s: the name %q is not valid: want %s", where, name, wordPattern))
		case closed && where != "counters" && !Takes(d.Platform, d.Resource.Type, name):
			errs = append(errs, fmt.Errorf("data.%s: %q is no size field of a %s at %s: want one of %v",
				where, name, d.Resource.Type, d.Platform, fields))
		}
	}
	for _, m := range []struct {
		where string
		size  Size
	}{{"size", d.Size}, {"previous_size", d.PreviousSize}, {"counters", d.Counters}} {
		for name, v := range m.size.All() {
			check(m.where, name)
			if err := v.validate(); err != nil {
				errs = append(errs, fmt.Errorf("data.%s.%s: %w", m.where, name, err))
			}
			switch {
			case m.where == "counters" && !v.IsNumber(), m.where != "counters" && closed && !v.IsNumber() && !IsWord(name):
				errs = append(errs, fmt.Errorf("data.%s.%s: %q is a word: want a number", m.where, name, v))
			case m.where != "counters" && closed && v.IsNumber() && IsWord(name):
				errs = append(errs, fmt.Errorf("data.%s.%s: %s is a number: want a word", m.where, name, v))
			}
		}
	}
	for i, name := range d.UnknownSize {
		check("unknown_size", name)
		if _, known := d.Size[name]; known {
			errs = append(errs, fmt.Errorf("data.unknown_size: %q stands in data.size too", name))
		}
		if slices.Contains(d.UnknownSize[:i], name) {
			errs = append(errs, fmt.Errorf("data.unknown_size: %q is listed twice", name))
		}
	}
	return errs
}
