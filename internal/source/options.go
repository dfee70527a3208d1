package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problems collects what is wrong with a source's options, and fills in defaults.
// The zero value is ready.
type Problems struct{ errs []error }

// Bad notes that something is wrong. The text begins with the field.
func (p *Problems) Bad(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// Err is all that is wrong, nil for nothing.
func (p *Problems) Err() error { return errors.Join(p.errs...) }

// Duration checks a duration that is def when it is zero, and least to most
// otherwise.
func (p *Problems) Duration(field string, value *time.Duration, def, least, most time.Duration) {
	if *value == 0 {
		*value = def
	}
	if *value < least || *value > most {
		p.Bad("%s: %s is out of range: use %s to %s", field, *value, least, most)
	}
}

// Kinds checks the field kinds, which is all of them when it is empty, each once.
func (p *Problems) Kinds(value *[]string, kinds []Kind) {
	var all []string
	for _, k := range kinds {
		all = append(all, string(k.Type))
	}
	if len(*value) == 0 {
		*value = all
	}
	for i, k := range *value {
		switch {
		case !slices.Contains(all, k):
			p.Bad("kinds[%d]: %q is unknown: use %s", i, k, strings.Join(all, ", "))
		case slices.Contains((*value)[:i], k):
			p.Bad("kinds[%d]: %q is there twice", i, k)
		}
	}
}
