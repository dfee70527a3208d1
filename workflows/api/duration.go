package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration written as "10m" in JSON and YAML.
type Duration time.Duration

// Std converts to the standard type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the Go notation, e.g. "10m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the Go notation.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration %s: want a string such as \"10m\" or \"90s\"", b)
	}
	return d.parse(s)
}

// MarshalYAML writes the Go notation.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// UnmarshalYAML reads the Go notation.
func (d *Duration) UnmarshalYAML(unmarshal func(any) error) error {
	var s string
	if err := unmarshal(&s); err != nil {
		return err
	}
	return d.parse(s)
}

func (d *Duration) parse(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, such as \"10m\" or \"90s\"", s)
	}
	*d = Duration(v)
	return nil
}
